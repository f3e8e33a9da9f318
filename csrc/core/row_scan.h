// Picks what matters out of a row before it is sorted: a few hundred candidates in place of all.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/candidates.h"
#include "core/reference.h"
#include "core/row_index.h"

namespace mlx_sampling {

// The `count` greatest candidates of a row, in the order of the library's partial sort; 1 <= count
// <= width. That keeps a heap and does nothing for an element that is not greater than the heap's
// least: only those that are, are shown to it, in id order, so the result is the same, ties
// included.
void find_greatest(std::span<const float> row, const RowIndex& index, size_t count,
                   Reference reference, std::vector<Candidate>& found);

// The candidates of a row that are at least `least`, in id order.
void all_from(std::span<const float> row, const RowIndex& index, float least,
              std::vector<Candidate>& found);

}  // namespace mlx_sampling

// Picks what matters out of a row before it is sorted: a few hundred candidates in place of all.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/candidates.h"
#include "core/row_index.h"

namespace mlx_sampling {

// The first `count` candidates of a row, and after them, in id order, those that are greater than
// the count-th greatest before them; 1 <= count <= width. A partial sort that keeps a heap of
// `count` and looks at each later element once, as both libraries do, does nothing for an element
// that is not greater than the heap's least: it gives the same for these candidates as for the
// whole row, ties included.
void running_greatest(std::span<const float> row, const RowIndex& index, size_t count,
                      std::vector<Candidate>& found);

// The candidates of a row that are at least `least`, in id order.
void all_from(std::span<const float> row, const RowIndex& index, float least,
              std::vector<Candidate>& found);

}  // namespace mlx_sampling

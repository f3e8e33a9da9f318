// A row with the greatest logit of each of its blocks, known from the check that every row goes
// through: short cuts of the chain skip blocks that hold nothing of interest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mlx_sampling {

inline constexpr size_t block_width = 256;

struct RowIndex {
  std::vector<float> greatest;  // per block; 0.0 where it is -0.0
  float least = 0;              // of all; 0.0 where it is -0.0

  // Calls `visit(begin, end)` for each block in order whose greatest logit is over `floor()`, or
  // equal to it where `inclusive`; positions before `first` are left out.
  template <bool inclusive, typename Floor, typename Visit>
  void for_each_block(size_t first, size_t width, Floor&& floor, Visit&& visit) const {
    for (size_t block = first / block_width; block < greatest.size(); ++block) {
      const float bound = floor();
      if (!(inclusive ? greatest[block] >= bound : greatest[block] > bound)) continue;
      const size_t begin = block * block_width;
      visit(std::max(begin, first), std::min(begin + block_width, width));
    }
  }

  float greatest_of_all() const { return *std::max_element(greatest.begin(), greatest.end()); }
};

struct IndexedRow {
  std::vector<float> logits;
  RowIndex index;

  // Makes this `row` with -inf in place of the logits whose bit in `allowed` is 0.
  void assign_masked(const IndexedRow& row, std::span<const uint32_t> allowed);
};

}  // namespace mlx_sampling

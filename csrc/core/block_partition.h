// The swaps of a partition from both ends, without a branch per element.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/fast_paths.h"

namespace mlx_sampling {

// Begins a partition of [left, right), of which the usual loop does the rest from where `left` and
// `right` then are: scan from the left for a stop, from the right for a stop, swap, and again
// until they meet. Why it is exact: that loop swaps the n-th stop from the left with the n-th from
// the right, as long as one is left of the other; here the stops of a block at each end, which do
// not overlap, are listed first, and as many are swapped as there are of both.
template <typename T, typename StopsLeft, typename StopsRight>
void swap_blocks(T*& left, T*& right, StopsLeft&& stops_left, StopsRight&& stops_right) {
  constexpr ptrdiff_t block = 64;
  constexpr ptrdiff_t least = 16;
  if (right - left < least || !fast_paths()) return;
  std::array<uint8_t, block> lefts;
  std::array<uint8_t, block> rights;
  while (right - left >= least) {
    const ptrdiff_t size = std::min(block, (right - left) / 2);
    size_t left_stops = 0;
    size_t right_stops = 0;
    for (ptrdiff_t i = 0; i < size; ++i) {
      lefts[left_stops] = static_cast<uint8_t>(i);
      left_stops += stops_left(left[i]) ? 1 : 0;
      rights[right_stops] = static_cast<uint8_t>(i);
      right_stops += stops_right(right[-1 - i]) ? 1 : 0;
    }
    const size_t swaps = std::min(left_stops, right_stops);
    for (size_t i = 0; i < swaps; ++i) std::swap(left[lefts[i]], right[-1 - rights[i]]);
    left += swaps < left_stops ? lefts[swaps] : size;
    right -= swaps < right_stops ? rights[swaps] : size;
  }
}

}  // namespace mlx_sampling

// Sums of floats with the bits of one addition after the other, without the wait for each.
//
// Why it is exact: while a running sum stays between one power of two and the next, it is a
// multiple of one unit in the last place, u, and adding x moves it by x rounded to a multiple of u,
// whatever the sum is: so the moves can be found all at once and added up in any order. Only an x
// halfway between two multiples depends on the sum (it rounds to even). So each block of addends is
// summed that way, and once more one by one if it has such an x or if the sum leaves the range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mlx_sampling {

// start + x[0] + x[1] + ..., rounded to float each time. Addends are >= 0 or NaN.
float add_in_order(float start, const float* x, size_t count);

// The same with the squares of x[i] - mean: the difference is a float, its square and its sum with
// the float so far are doubles, and the new sum is that rounded to float.
float add_squares_in_order(float start, const float* x, size_t count, float mean);

// Adds addends >= 0 where no order of them can change the result, and says so; else leaves the sum
// as it was.
bool add_in_any_order(float& sum, const float* x, size_t count);

// The same with addends of which the bounds are known, 0 <= low <= high: adds those that add the
// same all the way between them. The others' positions, counted from `first`, go to `open`.
bool add_between(float& sum, const float* low, const float* high, size_t count, size_t first,
                 std::vector<uint32_t>& open);

}  // namespace mlx_sampling

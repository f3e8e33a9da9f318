// Conversion of a float to an int where the value does not fit: undefined in C++, and different on
// each processor.
#pragma once

#include <cstdint>
#include <limits>

namespace mlx_sampling {

// Truncates as x86-64's own instruction does: whatever does not fit, NaN included, gives the least
// int.
inline int32_t truncate_as_x86(float value) {
  constexpr float limit = 2147483648.0f;
  if (value >= -limit && value < limit) return static_cast<int32_t>(value);
  return std::numeric_limits<int32_t>::min();
}

}  // namespace mlx_sampling

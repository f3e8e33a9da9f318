// A parameter that is given as a double and used as a float.
#pragma once

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace mlx_sampling {

// Throws std::invalid_argument, naming the parameter, unless `value` is finite as a float.
inline float finite_float(std::string_view name, double value) {
  if (std::abs(value) <= std::numeric_limits<float>::max()) return static_cast<float>(value);
  std::ostringstream error;
  error << "[" << name << "] Expected a finite value in float32's range, got " << value << ".";
  throw std::invalid_argument(error.str());
}

}  // namespace mlx_sampling

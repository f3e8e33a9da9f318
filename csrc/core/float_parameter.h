// A parameter that is given as a double and used as a float.
#pragma once

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace mlx_sampling {

// `value` as a float32. Throws std::invalid_argument, naming stage and parameter, where it is not
// finite there.
inline float finite_float(std::string_view stage, std::string_view parameter, double value) {
  if (std::abs(value) <= std::numeric_limits<float>::max()) return static_cast<float>(value);
  std::ostringstream error;
  error << "[" << stage << "] Expected a finite " << parameter << " in float32's range, got "
        << value << ".";
  throw std::invalid_argument(error.str());
}

}  // namespace mlx_sampling

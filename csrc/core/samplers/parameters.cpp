#include "core/samplers/parameters.h"

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

namespace mlx_sampling {
namespace {

template <typename T>
[[noreturn]] void refuse(std::string_view stage, std::string_view expected, T value) {
  std::ostringstream error;
  error << "[" << stage << "] Expected " << expected << ", got " << value << ".";
  throw std::invalid_argument(error.str());
}

}  // namespace

float finite_float(std::string_view stage, std::string_view parameter, double value) {
  // False for NaN too.
  if (std::abs(value) <= std::numeric_limits<float>::max()) return static_cast<float>(value);
  refuse(stage, "a finite " + std::string(parameter) + " in float32's range", value);
}

float finite_temperature(std::string_view stage, double value) {
  if (!std::isfinite(value)) refuse(stage, "a finite value", value);
  const bool too_great = std::abs(value) > std::numeric_limits<float>::max();
  if (too_great || (value != 0 && static_cast<float>(value) == 0)) {
    refuse(stage, "0 or a value in float32's range", value);
  }
  return static_cast<float>(value);
}

size_t count_to_keep(std::string_view stage, int64_t min_keep) {
  if (min_keep < 0) refuse(stage, "min_keep >= 0", min_keep);
  return static_cast<size_t>(min_keep);
}

}  // namespace mlx_sampling

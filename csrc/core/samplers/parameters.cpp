#include "core/samplers/parameters.h"

#include <cmath>
#include <limits>

#include "core/error.h"

namespace mlx_sampling {
float finite_float(std::string_view stage, std::string_view parameter, double value) {
  // False for NaN too.
  if (std::abs(value) <= std::numeric_limits<float>::max()) return static_cast<float>(value);
  refuse("[", stage, "] Expected a finite ", parameter, " in float32's range, got ", value, ".");
}

float finite_temperature(std::string_view stage, double value) {
  if (!std::isfinite(value)) refuse("[", stage, "] Expected a finite value, got ", value, ".");
  const bool too_great = std::abs(value) > std::numeric_limits<float>::max();
  if (too_great || (value != 0 && static_cast<float>(value) == 0)) {
    refuse("[", stage, "] Expected 0 or a value in float32's range, got ", value, ".");
  }
  return static_cast<float>(value);
}

size_t count_to_keep(std::string_view stage, int64_t min_keep) {
  if (min_keep < 0) refuse("[", stage, "] Expected min_keep >= 0, got ", min_keep, ".");
  return static_cast<size_t>(min_keep);
}

}  // namespace mlx_sampling

// What constructors of stages check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mlx_sampling {

// `value` as a float32. Throws std::invalid_argument, naming stage and parameter, where it is not
// finite there.
float finite_float(std::string_view stage, std::string_view parameter, double value);

// The same for a temperature: where it is not 0, it is not 0 as a float32 either.
float finite_temperature(std::string_view stage, double value);

// Throws std::invalid_argument for a negative count.
size_t count_to_keep(std::string_view stage, int64_t min_keep);

}  // namespace mlx_sampling

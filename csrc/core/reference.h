// Which C++ standard library's random distributions and orderings are reproduced.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace mlx_sampling {

enum class Reference { libcxx, libstdcxx };

// Throws std::invalid_argument unless `name` is "libc++" or "libstdc++".
inline Reference parse_reference(std::string_view name) {
  if (name == "libc++") return Reference::libcxx;
  if (name == "libstdc++") return Reference::libstdcxx;
  throw std::invalid_argument("[reference] Expected \"libc++\" or \"libstdc++\", got \"" +
                              std::string(name) + "\".");
}

inline std::string_view reference_name(Reference reference) {
  return reference == Reference::libcxx ? "libc++" : "libstdc++";
}

}  // namespace mlx_sampling

// Sets of code points as ranges: ascending, disjoint, not touching, scalar values only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/grammar_syntax.h"

namespace mlx_sampling {

inline constexpr uint32_t max_code_point = 0x10FFFF;
inline constexpr CharRange surrogates = {0xD800, 0xDFFF};

inline bool is_surrogate(uint32_t code_point) {
  return surrogates.first <= code_point && code_point <= surrogates.last;
}

// The set of all characters that are in one of `ranges`, which may overlap, be empty (first > last)
// and hold surrogates, but nothing above max_code_point.
std::vector<CharRange> char_set(std::vector<CharRange> ranges);

// The characters that are not in a set.
std::vector<CharRange> complement(std::span<const CharRange> set);

}  // namespace mlx_sampling

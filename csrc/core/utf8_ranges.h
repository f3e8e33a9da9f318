// Sets of code points as sequences of byte ranges: what strict UTF-8 spells them with.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/grammar_syntax.h"

namespace mlx_sampling {

struct ByteRange {
  uint8_t first;
  uint8_t last;
};

// Every choice of one byte per range is the UTF-8 of one code point.
struct Utf8Sequence {
  std::array<ByteRange, 4> bytes;
  uint32_t size;
};

// Appends sequences that spell exactly the code points of `range`, which has no surrogates.
void append_utf8(CharRange range, std::vector<Utf8Sequence>& sequences);

}  // namespace mlx_sampling

// Strict UTF-8: shortest forms of scalar values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mlx_sampling {

// The character that `text` begins with, and its length; length 0 where it is none.
struct DecodedChar {
  uint32_t code_point;
  size_t length;
};

inline DecodedChar decode_char(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (text.empty()) return {0, 0};
  if (byte(0) < 0x80) return {byte(0), 1};
  if (byte(0) < 0xC2 || byte(0) > 0xF4) return {0, 0};
  const size_t length = byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (text.size() < length) return {0, 0};
  uint32_t code_point = byte(0) & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_scalar = code_point >= least[length] && code_point <= 0x10FFFF &&
                         (code_point < 0xD800 || code_point > 0xDFFF);
  return is_scalar ? DecodedChar{code_point, length} : DecodedChar{0, 0};
}

inline void append_char(std::string& text, uint32_t code_point) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
    return;
  }
  const int rest = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  put((0xFF00u >> (rest + 1) & 0xFF) | code_point >> 6 * rest);
  for (int i = rest - 1; i >= 0; --i) put(0x80 | (code_point >> 6 * i & 0x3F));
}

}  // namespace mlx_sampling

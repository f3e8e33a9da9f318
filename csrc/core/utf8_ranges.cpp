#include "core/utf8_ranges.h"

namespace mlx_sampling {
namespace {

uint32_t encode(uint32_t code, std::array<uint8_t, 4>& bytes) {
  const auto low = [&](int shift) { return static_cast<uint8_t>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    bytes = {static_cast<uint8_t>(code)};
    return 1;
  }
  if (code < 0x800) {
    bytes = {static_cast<uint8_t>(0xC0 | code >> 6), low(0)};
    return 2;
  }
  if (code < 0x10000) {
    bytes = {static_cast<uint8_t>(0xE0 | code >> 12), low(6), low(0)};
    return 3;
  }
  bytes = {static_cast<uint8_t>(0xF0 | code >> 18), low(12), low(6), low(0)};
  return 4;
}

// Where the range must be cut so that its ends have one length and differ, after their common
// leading bytes, in full continuation ranges only; `range.last` where it need not be.
uint32_t first_piece_end(CharRange range) {
  for (uint32_t longest : {0x7Fu, 0x7FFu, 0xFFFFu}) {
    if (range.first <= longest && range.last > longest) return longest;
  }
  if (range.last < 0x80) return range.last;
  for (int byte = 1; byte < 4; ++byte) {
    const uint32_t low = (1u << (6 * byte)) - 1;
    if ((range.first & ~low) == (range.last & ~low)) continue;
    if ((range.first & low) != 0) return range.first | low;
    if ((range.last & low) != low) return (range.last & ~low) - 1;
  }
  return range.last;
}

}  // namespace

void append_utf8(CharRange range, std::vector<Utf8Sequence>& sequences) {
  while (true) {
    CharRange piece = range;
    for (uint32_t end; (end = first_piece_end(piece)) != piece.last;) piece.last = end;
    std::array<uint8_t, 4> first{};
    std::array<uint8_t, 4> last{};
    Utf8Sequence sequence{};
    sequence.size = encode(piece.first, first);
    encode(piece.last, last);
    for (uint32_t i = 0; i < sequence.size; ++i) sequence.bytes[i] = {first[i], last[i]};
    sequences.push_back(sequence);
    if (piece.last == range.last) return;
    range.first = piece.last + 1;
  }
}

}  // namespace mlx_sampling

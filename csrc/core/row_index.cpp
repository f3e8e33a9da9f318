#include "core/row_index.h"

#include <limits>

namespace mlx_sampling {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr size_t word_bits = 32;

// Up to 32 logits under one word of a bitmask.
void mask_word(const float* from, uint32_t word, size_t count, float* to) {
  if (word == 0) {
    std::fill_n(to, count, -inf);
  } else {
    for (size_t i = 0; i < count; ++i) to[i] = (word >> i & 1) != 0 ? from[i] : -inf;
  }
}

}  // namespace

void IndexedRow::assign_masked(const IndexedRow& row, std::span<const uint32_t> allowed) {
  const size_t width = row.logits.size();
  logits.resize(width);
  for (size_t at = 0; at < width; at += word_bits) {
    mask_word(&row.logits[at], allowed[at / word_bits], std::min(word_bits, width - at),
              &logits[at]);
  }
  index.greatest.clear();
  for (size_t at = 0; at < width; at += block_width) {
    const auto end = logits.begin() + static_cast<ptrdiff_t>(std::min(at + block_width, width));
    const float greatest = *std::max_element(logits.begin() + static_cast<ptrdiff_t>(at), end);
    index.greatest.push_back(greatest == 0 ? 0.0f : greatest);
  }
  const float least = *std::min_element(logits.begin(), logits.end());
  index.least = least == 0 ? 0.0f : least;
}

}  // namespace mlx_sampling

// The C++ standard's mt19937 engine and the conversions that sampling draws through it. Our own
// code, so that every platform gives the same values whatever standard library it is compiled with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/reference.h"

namespace mlx_sampling {

class Mt19937 {
  static constexpr size_t word_count = 624;

 public:
  // Bytes of a snapshot: 20 of header, the words, 4 of checksum.
  static constexpr size_t snapshot_size = 20 + 4 * word_count + 4;

  explicit Mt19937(uint32_t seed);

  // The next word of the stream.
  uint32_t next() {
    if (index_ == word_count) twist();
    ++position_;
    return temper(words_[index_++]);
  }

  // One word over 2**32, computed in float. libc++ gives exactly 1.0f for the 128 greatest words;
  // libstdc++ gives the greatest float below it.
  float uniform_f32(Reference reference);

  // Two words, the low one first, over 2**64. Of all pairs only the greatest 1,024 in 2**64 round
  // to 1: libc++ gives exactly 1.0, libstdc++ the greatest double below it.
  double uniform_f64(Reference reference);

  // Index drawn in proportion to `weights`. Two words, except that libstdc++ draws none for one
  // weight. Throws std::invalid_argument, before any draw, unless the weights are at least one,
  // finite, not negative, and have a positive finite sum. As in the libraries, a uniform at the
  // very edge can fall on a weight of zero.
  size_t discrete(std::span<const double> weights, Reference reference);

  // Words drawn since the seed.
  uint64_t position() const { return position_; }

  // The state as bytes, the same on every platform: see the layout in mt19937.cpp.
  std::vector<uint8_t> snapshot() const;

  // Continues where `snapshot()` was taken. Throws std::invalid_argument, leaving the engine as it
  // was, where the bytes are foreign, of another version, cut short or damaged.
  void restore(std::span<const uint8_t> bytes);

  bool operator==(const Mt19937&) const = default;

 private:
  static uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680u;
    y ^= (y << 15) & 0xEFC60000u;
    return y ^ (y >> 18);
  }

  void twist();

  std::array<uint32_t, word_count> words_;
  size_t index_ = word_count;  // of the next word; `word_count` = a new block is due
  uint64_t position_ = 0;
};

}  // namespace mlx_sampling

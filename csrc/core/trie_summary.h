// What lies below each node of a token trie, so that whole subtrees can be taken or left at once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/token_trie.h"

namespace mlx_sampling {

// A set of bytes, those from 0x80 on as one.
struct ByteSummary {
  uint64_t low = 0;  // 0x00 to 0x3F
  uint64_t high = 0;
  bool wide = false;

  void add(uint8_t byte) {
    if (byte >= 0x80) {
      wide = true;
    } else {
      (byte < 0x40 ? low : high) |= uint64_t{1} << (byte & 0x3F);
    }
  }
  void add(const ByteSummary& other) {
    low |= other.low;
    high |= other.high;
    wide |= other.wide;
  }
  bool is_inside(const ByteSummary& other) const {
    return (low & ~other.low) == 0 && (high & ~other.high) == 0 && (!wide || other.wide);
  }
  bool meets(const ByteSummary& other) const {
    return (low & other.low) != 0 || (high & other.high) != 0 || (wide && other.wide);
  }
};

class TrieSummary {
 public:
  TrieSummary() = default;
  explicit TrieSummary(const TokenTrie& trie);

  // Bytes of the nodes below `node`, itself not included.
  const ByteSummary& below(uint32_t node) const { return below_[node]; }

  // Whether a character ends at `node`, and all that is below is UTF-8, but for its end.
  bool is_clean(uint32_t node) const { return clean_[node] != 0; }

  // Whether what leads to `node` is UTF-8 that ends with a character.
  bool ends_character(uint32_t node) const { return ends_character_[node] != 0; }

 private:
  std::vector<ByteSummary> below_;
  std::vector<uint8_t> clean_;
  std::vector<uint8_t> ends_character_;
};

}  // namespace mlx_sampling

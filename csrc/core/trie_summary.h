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

  // Bytes of the subtree of `node`, its own included.
  const ByteSummary& bytes(uint32_t node) const { return bytes_[node]; }

  // Whether all paths from the root through `node` are UTF-8, but for an end within a character.
  bool is_utf8(uint32_t node) const { return (flags_[node] & utf8) != 0; }

  // Whether the path to `node` is UTF-8 that ends with a character.
  bool ends_character(uint32_t node) const { return (flags_[node] & character) != 0; }

  // Characters begun on the path to `node`, and on the path to a node of its subtree at most:
  // bytes that do not go on with one.
  uint32_t characters(uint32_t node) const { return characters_[node]; }
  uint32_t most_characters(uint32_t node) const { return most_characters_[node]; }

 private:
  static constexpr uint8_t utf8 = 1;
  static constexpr uint8_t character = 2;

  std::vector<ByteSummary> bytes_;
  std::vector<uint16_t> characters_;
  std::vector<uint16_t> most_characters_;
  std::vector<uint8_t> flags_;
};

}  // namespace mlx_sampling

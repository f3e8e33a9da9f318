// A token trie's nodes with what lies below each of them, so that a walk can take or leave whole
// subtrees at once; all that it looks at in a node stands in one place.
#pragma once

#include <cstdint>
#include <span>
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
};

class TrieSummary {
 public:
  // The children of a node stand side by side: a walk that leaves most of them out still reads them
  // one after another.
  struct Node {
    uint64_t low;              // bytes of the subtree, the node's own included: 0x00 to 0x3F
    uint64_t high;             // and 0x40 to 0x7F
    uint32_t tokens;           // of the subtree: from here, in the trie's order
    uint32_t tokens_end;       // up to here
    uint32_t children;         // the first of them; 0: none
    uint16_t characters;       // begun on the path to here: bytes that do not go on with one
    uint16_t most_characters;  // and on the path to a node of the subtree at most
    uint8_t byte;
    uint8_t flags;

    static constexpr uint8_t wide = 1;       // bytes from 0x80 on are in the subtree
    static constexpr uint8_t broken = 2;     // a path from the root through here is not UTF-8
    static constexpr uint8_t character = 4;  // the path to here is UTF-8 and ends with a character
    static constexpr uint8_t last = 8;       // of its parent's children

    bool is(uint8_t flag) const { return (flags & flag) != 0; }
    bool begins_character() const { return (byte & 0xC0) != 0x80; }
    bool meets(const ByteSummary& bytes) const {
      return ((low & bytes.low) | (high & bytes.high)) != 0 || (is(wide) && bytes.wide);
    }
  };

  TrieSummary() = default;
  explicit TrieSummary(const TokenTrie& trie);

  // 0: the root.
  const Node& node(uint32_t i) const { return nodes_[i]; }

  // Where the tokens that end at `node` itself end, in the trie's order.
  uint32_t own_tokens_end(const Node& node) const {
    return node.children != 0 ? nodes_[node.children].tokens : node.tokens_end;
  }

 private:
  void place(const TokenTrie& trie, std::vector<uint32_t>& places);
  void sum_up(const TokenTrie& trie, const std::vector<uint32_t>& places);

  std::vector<Node> nodes_;
};

// Whether all bytes of a subtree are of some set, and, where that has bytes from 0x80 on, whether
// it and what leads to it is UTF-8.
class InsideBytes {
 public:
  explicit InsideBytes(const ByteSummary& bytes)
      : not_low_(~bytes.low),
        not_high_(~bytes.high),
        not_flags_(bytes.wide ? TrieSummary::Node::broken : TrieSummary::Node::wide) {}

  bool operator()(const TrieSummary::Node& node) const {
    return ((node.low & not_low_) | (node.high & not_high_) |
            static_cast<uint64_t>(node.flags & not_flags_)) == 0;
  }

 private:
  uint64_t not_low_;
  uint64_t not_high_;
  uint8_t not_flags_;
};

}  // namespace mlx_sampling

#include "core/trie_summary.h"

#include <algorithm>

namespace mlx_sampling {
namespace {

// How far into a character a text is: what may come next.
enum Utf8 : uint8_t {
  between,
  last_1,
  last_2,
  last_3,
  after_e0,
  after_ed,
  after_f0,
  after_f4,
  bad
};

Utf8 next(Utf8 state, uint8_t byte) {
  const auto in = [byte](int first, int last) { return byte >= first && byte <= last; };
  switch (state) {
    case between:
      if (byte < 0x80) return between;
      if (in(0xC2, 0xDF)) return last_1;
      if (byte == 0xE0) return after_e0;
      if (byte == 0xED) return after_ed;
      if (in(0xE1, 0xEF)) return last_2;
      if (byte == 0xF0) return after_f0;
      if (byte == 0xF4) return after_f4;
      return in(0xF1, 0xF3) ? last_3 : bad;
    case last_1:
      return in(0x80, 0xBF) ? between : bad;
    case last_2:
      return in(0x80, 0xBF) ? last_1 : bad;
    case last_3:
      return in(0x80, 0xBF) ? last_2 : bad;
    case after_e0:
      return in(0xA0, 0xBF) ? last_1 : bad;
    case after_ed:
      return in(0x80, 0x9F) ? last_1 : bad;
    case after_f0:
      return in(0x90, 0xBF) ? last_2 : bad;
    case after_f4:
      return in(0x80, 0x8F) ? last_2 : bad;
    case bad:
      return bad;
  }
  return bad;
}

}  // namespace

TrieSummary::TrieSummary(const TokenTrie& trie) {
  const auto nodes = trie.nodes();
  const auto size = static_cast<uint32_t>(nodes.size());
  nodes_.resize(size + 1);
  nodes_[size].tokens = static_cast<uint32_t>(trie.tokens().size());
  std::vector<Utf8> states(trie.longest() + 1, between);  // of the path, by depth
  std::vector<uint32_t> path(trie.longest() + 1);
  std::vector<uint32_t> parents(size);
  for (uint32_t i = 0; i < size; ++i) {
    Node& node = nodes_[i];
    node.end = nodes[i].end;
    node.tokens = nodes[i].tokens;
    node.depth = nodes[i].depth;
    node.byte = nodes[i].byte;
    node.flags = Node::character;
    if (i == 0) continue;
    path[node.depth] = i;
    parents[i] = path[node.depth - 1];
    const Utf8 state = states[node.depth] = next(states[node.depth - 1], node.byte);
    const uint16_t before = nodes_[parents[i]].characters;
    node.characters = static_cast<uint16_t>(before + (node.begins_character() ? 1 : 0));
    node.most_characters = node.characters;
    node.flags = state == bad ? Node::broken : state == between ? Node::character : 0;
    ByteSummary own;
    own.add(node.byte);
    node.low = own.low;
    node.high = own.high;
    if (own.wide) node.flags |= Node::wide;
  }
  for (uint32_t i = size - 1; i > 0; --i) {
    Node& parent = nodes_[parents[i]];
    parent.low |= nodes_[i].low;
    parent.high |= nodes_[i].high;
    parent.most_characters = std::max(parent.most_characters, nodes_[i].most_characters);
    parent.flags |= nodes_[i].flags & (Node::wide | Node::broken);
  }
}

}  // namespace mlx_sampling

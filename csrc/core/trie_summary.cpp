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

TrieSummary::TrieSummary(const TokenTrie& trie) : nodes_(trie.nodes().size()) {
  std::vector<uint32_t> places(nodes_.size());
  place(trie, places);
  sum_up(trie, places);
}

// Finds where each of the trie's nodes goes: children together, in their order.
void TrieSummary::place(const TokenTrie& trie, std::vector<uint32_t>& places) {
  const auto nodes = trie.nodes();
  uint32_t next = 1;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes_[places[i]];
    const auto below = trie.tokens_below(i);
    node.tokens = static_cast<uint32_t>(below.data() - trie.tokens().data());
    node.tokens_end = static_cast<uint32_t>(node.tokens + below.size());
    node.byte = nodes[i].byte;
    if (nodes[i].end == i + 1) continue;
    node.children = next;
    for (uint32_t child = i + 1; child < nodes[i].end; child = nodes[child].end) {
      places[child] = next++;
    }
    nodes_[next - 1].flags = Node::last;
  }
}

void TrieSummary::sum_up(const TokenTrie& trie, const std::vector<uint32_t>& places) {
  const auto nodes = trie.nodes();
  const auto size = static_cast<uint32_t>(nodes.size());
  std::vector<Utf8> states(trie.longest() + 1, between);  // of the path, by depth
  std::vector<uint32_t> path(trie.longest() + 1);         // places
  std::vector<uint32_t> parents(size);
  nodes_[0].flags = Node::character;
  for (uint32_t i = 1; i < size; ++i) {
    const uint16_t depth = nodes[i].depth;
    Node& node = nodes_[places[i]];
    path[depth] = places[i];
    parents[i] = path[depth - 1];
    const Utf8 state = states[depth] = next(states[depth - 1], node.byte);
    node.characters =
        static_cast<uint16_t>(nodes_[parents[i]].characters + (node.begins_character() ? 1 : 0));
    node.most_characters = node.characters;
    ByteSummary own;
    own.add(node.byte);
    node.low = own.low;
    node.high = own.high;
    node.flags |= own.wide ? Node::wide : 0;
    node.flags |= state == bad ? Node::broken : state == between ? Node::character : 0;
  }
  for (uint32_t i = size - 1; i > 0; --i) {
    const Node& node = nodes_[places[i]];
    Node& parent = nodes_[parents[i]];
    parent.low |= node.low;
    parent.high |= node.high;
    parent.most_characters = std::max(parent.most_characters, node.most_characters);
    parent.flags |= node.flags & (Node::wide | Node::broken);
  }
}

}  // namespace mlx_sampling

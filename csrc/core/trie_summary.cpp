#include "core/trie_summary.h"

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

TrieSummary::TrieSummary(const TokenTrie& trie)
    : below_(trie.nodes().size()),
      clean_(trie.nodes().size()),
      ends_character_(trie.nodes().size()) {
  const auto nodes = trie.nodes();
  std::vector<Utf8> states(trie.longest() + 1, between);  // by depth
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const auto& node = nodes[i];
    if (node.depth != 0) states[node.depth] = next(states[node.depth - 1], node.byte);
    ends_character_[i] = states[node.depth] == between;
    clean_[i] = states[node.depth] != bad;
  }
  // Children come after their parents; the last of them ends where its parent does.
  std::vector<uint32_t> parents(trie.longest() + 1);
  std::vector<uint32_t> parent_of(nodes.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    parents[nodes[i].depth] = i;
    if (nodes[i].depth != 0) parent_of[i] = parents[nodes[i].depth - 1];
  }
  for (uint32_t i = static_cast<uint32_t>(nodes.size()) - 1; i > 0; --i) {
    ByteSummary bytes = below_[i];
    bytes.add(nodes[i].byte);
    below_[parent_of[i]].add(bytes);
    clean_[parent_of[i]] &= clean_[i];
  }
  for (uint32_t i = 0; i < nodes.size(); ++i) clean_[i] &= ends_character_[i];
}

}  // namespace mlx_sampling

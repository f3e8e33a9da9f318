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

TrieSummary::TrieSummary(const TokenTrie& trie)
    : bytes_(trie.nodes().size()),
      characters_(trie.nodes().size()),
      most_characters_(trie.nodes().size()),
      flags_(trie.nodes().size()) {
  const auto nodes = trie.nodes();
  std::vector<Utf8> states(trie.longest() + 1, between);  // of the path, by depth
  std::vector<uint32_t> path(trie.longest() + 1);
  std::vector<uint32_t> parents(nodes.size());
  flags_[0] = utf8 | character;
  for (uint32_t i = 1; i < nodes.size(); ++i) {
    const auto& node = nodes[i];
    path[node.depth] = i;
    parents[i] = path[node.depth - 1];
    const Utf8 state = states[node.depth] = next(states[node.depth - 1], node.byte);
    if (state != bad) flags_[i] |= utf8;
    if (state == between) flags_[i] |= character;
    const int begins = (node.byte & 0xC0) != 0x80 ? 1 : 0;
    characters_[i] = static_cast<uint16_t>(characters_[parents[i]] + begins);
  }
  for (uint32_t i = static_cast<uint32_t>(nodes.size()) - 1; i > 0; --i) {
    const uint32_t parent = parents[i];
    bytes_[i].add(nodes[i].byte);
    bytes_[parent].add(bytes_[i]);
    most_characters_[i] = std::max(most_characters_[i], characters_[i]);
    most_characters_[parent] = std::max(most_characters_[parent], most_characters_[i]);
    if ((flags_[i] & utf8) == 0) flags_[parent] &= static_cast<uint8_t>(~utf8);
  }
}

}  // namespace mlx_sampling

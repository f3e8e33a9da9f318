#include "core/token_trie.h"

#include <algorithm>

namespace mlx_sampling {
namespace {

// A text with what decides most comparisons at hand: its first eight bytes as a big-endian number,
// padded with NUL.
struct Entry {
  uint64_t head;
  std::string_view bytes;
  uint32_t id;
};

uint64_t head_of(std::string_view bytes) {
  uint64_t head = 0;
  for (size_t i = 0; i < sizeof head; ++i) {
    head = head << 8 | (i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0);
  }
  return head;
}

bool before(const Entry& a, const Entry& b) {
  if (a.head != b.head) return a.head < b.head;
  const int order = a.bytes.compare(b.bytes);
  return order != 0 ? order < 0 : a.id < b.id;
}

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t length = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + length, b.begin()).first -
                             a.begin());
}

}  // namespace

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, uint32_t>> texts) {
  std::vector<Entry> entries;
  entries.reserve(texts.size());
  for (const auto& [bytes, id] : texts) entries.push_back({head_of(bytes), bytes, id});
  std::sort(entries.begin(), entries.end(), before);

  nodes_.clear();
  nodes_.reserve(3 * entries.size() + 2);
  nodes_.push_back({0, 0, 0, 0});
  tokens_.reserve(entries.size());
  std::vector<uint32_t> path = {0};  // nodes from the root to the last text's end
  std::string_view last;
  for (const auto& [_, bytes, id] : entries) {
    const size_t shared = common_prefix(last, bytes);
    for (; path.size() > shared + 1; path.pop_back()) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    }
    for (size_t depth = shared; depth < bytes.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), static_cast<uint16_t>(depth + 1),
                        static_cast<uint8_t>(bytes[depth])});
    }
    tokens_.push_back(id);
    longest_ = std::max(longest_, bytes.size());
    last = bytes;
  }
  for (uint32_t node : path) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), 0, 0});
}

}  // namespace mlx_sampling

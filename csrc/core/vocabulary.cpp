#include "core/vocabulary.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"

namespace mlx_sampling {
namespace {

constexpr size_t longest_token = 65'535;

// 64-bit FNV-1a.
class Hash {
 public:
  void add(std::string_view bytes) {
    for (char byte : bytes) add_byte(static_cast<uint8_t>(byte));
  }
  void add(uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) add_byte(static_cast<uint8_t>(value >> shift));
  }
  uint64_t value() const { return value_; }

 private:
  void add_byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3u; }

  uint64_t value_ = 0xCBF29CE484222325u;
};

// The child of `node` by `byte`, or 0.
uint32_t child(std::span<const TokenTrie::Node> nodes, uint32_t node, uint8_t byte) {
  for (uint32_t i = node + 1; i < nodes[node].end; i = nodes[i].end) {
    if (nodes[i].byte == byte) return i;
  }
  return 0;
}

}  // namespace

Vocabulary::Vocabulary(const std::vector<std::string>& bytes, std::span<const uint32_t> control,
                       std::span<const uint32_t> ends)
    : kinds_(bytes.size(), Kind::text) {
  if (bytes.empty()) refuse("[vocabulary] Expected at least one token, got none.");
  size_t total = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    total += bytes[i].size();
    if (bytes[i].size() > longest_token) {
      refuse("[vocabulary] Expected tokens of at most ", longest_token, " bytes, got ",
             bytes[i].size(), " for token ", i, ".");
    }
  }
  if (total > std::numeric_limits<uint32_t>::max()) {
    refuse("[vocabulary] Expected less than 4 GiB of token bytes, got ", total, ".");
  }
  pool_.reserve(total);
  begins_.reserve(bytes.size() + 1);
  for (size_t i = 0; i < bytes.size(); ++i) {
    begins_.push_back(static_cast<uint32_t>(pool_.size()));
    pool_ += bytes[i];
    if (bytes[i].empty()) kinds_[i] = Kind::silent;
  }
  begins_.push_back(static_cast<uint32_t>(pool_.size()));
  mark(control, "control tokens", Kind::silent);
  mark(ends, "end tokens", Kind::end);
  trie_ = make_trie();
  trie_summary_ = TrieSummary(trie_);
  fingerprint_ = hash();
}

void Vocabulary::mark(std::span<const uint32_t> tokens, const char* name, Kind kind) {
  for (uint32_t token : tokens) {
    if (token >= size()) {
      refuse("[vocabulary] Expected ", name, " in [0, ", size(), "), got ", token, ".");
    }
    kinds_[token] = kind;
  }
}

TokenTrie Vocabulary::make_trie() {
  std::vector<std::pair<std::string_view, uint32_t>> texts;
  texts.reserve(size());
  for (uint32_t token = 0; token < size(); ++token) {
    if (is_text(token)) {
      texts.emplace_back(bytes(token), token);
    } else {
      others_.push_back(token);
      if (is_end(token)) ends_.push_back(token);
    }
  }
  std::sort(others_.begin(), others_.end(), [this](uint32_t a, uint32_t b) {
    return std::pair(bytes(a), a) < std::pair(bytes(b), b);
  });
  return TokenTrie(std::move(texts));
}

std::optional<uint32_t> Vocabulary::find(std::string_view text) const {
  std::optional<uint32_t> found;
  const auto other =
      std::lower_bound(others_.begin(), others_.end(), text,
                       [this](uint32_t token, std::string_view t) { return bytes(token) < t; });
  if (other != others_.end() && bytes(*other) == text) found = *other;
  if (text.empty()) return found;
  uint32_t node = 0;
  for (char byte : text) {
    node = child(trie_.nodes(), node, static_cast<uint8_t>(byte));
    if (node == 0) return found;
  }
  const auto tokens = trie_.tokens_at(node);
  if (!tokens.empty() && (!found || tokens.front() < *found)) found = tokens.front();
  return found;
}

uint64_t Vocabulary::hash() const {
  Hash hash;
  for (uint32_t begin : begins_) hash.add(begin);
  for (Kind kind : kinds_) hash.add(static_cast<uint32_t>(kind));
  hash.add(pool_);
  return hash.value();
}

}  // namespace mlx_sampling

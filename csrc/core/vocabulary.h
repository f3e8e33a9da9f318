// What a model's tokens are: the bytes each one writes, which of them are control tokens, and which
// end the generation. Immutable, shared by all requests of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/token_trie.h"
#include "core/trie_summary.h"

namespace mlx_sampling {

class Vocabulary {
 public:
  // `bytes[i]` is what token `i` writes; of a control token, its name. Bytes may hold NUL, or begin
  // and end within a character. Throws std::invalid_argument for no tokens, for one of more than
  // 65,535 bytes, and for ids of control or end tokens that are outside the vocabulary.
  Vocabulary(const std::vector<std::string>& bytes, std::span<const uint32_t> control,
             std::span<const uint32_t> ends);

  size_t size() const { return begins_.size() - 1; }
  std::string_view bytes(uint32_t token) const {
    return std::string_view(pool_).substr(begins_[token], begins_[token + 1] - begins_[token]);
  }

  // Whether a token can match as text: it writes something, is no control token and ends nothing.
  bool is_text(uint32_t token) const { return kinds_[token] == Kind::text; }
  bool is_end(uint32_t token) const { return kinds_[token] == Kind::end; }

  // Whether a grammar can name it: it writes something or has a name, and ends nothing.
  bool can_be_literal(uint32_t token) const { return !bytes(token).empty() && !is_end(token); }

  // End-of-generation ids, ascending.
  std::span<const uint32_t> ends() const { return ends_; }

  // The token whose bytes or name are exactly `text`, the lowest of them; for `<text>` in a
  // grammar.
  std::optional<uint32_t> find(std::string_view text) const;

  // The text tokens.
  const TokenTrie& trie() const { return trie_; }
  const TrieSummary& trie_summary() const { return trie_summary_; }

  // Of everything above: equal for equal vocabularies, on any machine.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  enum class Kind : uint8_t { text, silent, end };

  void mark(std::span<const uint32_t> tokens, const char* name, Kind kind);
  TokenTrie make_trie();
  uint64_t hash() const;

  std::string pool_;
  std::vector<uint32_t> begins_;
  std::vector<Kind> kinds_;
  std::vector<uint32_t> ends_;
  std::vector<uint32_t> others_;  // tokens that are no text, by (bytes, id)
  TokenTrie trie_;
  TrieSummary trie_summary_;
  uint64_t fingerprint_;
};

}  // namespace mlx_sampling

// The grammar of a request: how far its text has come, and whether a lazy one has begun.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/grammar.h"
#include "core/grammar_matcher.h"

namespace mlx_sampling {

// A token that does not go on with the text, or a text that nothing goes on with.
class GrammarRefusal : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// What makes a lazy grammar begin.
struct GrammarTriggers {
  std::vector<uint32_t> tokens;  // the grammar begins with such a token

  // Of the text so far, the byte that the grammar begins with; none: it does not begin yet.
  std::function<std::optional<size_t>(const std::string&)> find;
};

// Copying is forking.
class GrammarState {
 public:
  // Throws std::invalid_argument for a grammar without a vocabulary, and for a trigger token that
  // the grammar cannot begin with.
  GrammarState(std::shared_ptr<const Grammar> grammar, bool masks_first,
               std::shared_ptr<const GrammarTriggers> triggers);

  const Vocabulary& vocabulary() const { return *grammar_->vocabulary(); }
  uint64_t fingerprint() const { return grammar_->fingerprint(); }

  // Whether the mask comes before the chain, not after a refused pick.
  bool masks_first() const { return masks_first_; }

  // Whether a lazy grammar has not begun: any token goes.
  bool is_waiting() const { return waiting_; }

  // Whether the text may end here; false while waiting.
  bool is_completed() const { return !waiting_ && matcher_.is_completed(); }
  bool is_terminated() const { return !waiting_ && matcher_.is_terminated(); }

  bool can_accept(uint32_t token) const { return waiting_ || matcher_.can_accept(token); }
  void fill_bitmask(std::span<uint32_t> words) const;

  // Throws GrammarRefusal, changing nothing.
  void accept(uint32_t token);

  // The tokens that the state follows from: those of a grammar that has begun, the first of them
  // without its first `skipped()` bytes; or all that a waiting one has seen.
  std::span<const uint32_t> tokens() const { return tokens_; }
  size_t skipped() const { return skipped_; }

  void reset();

  // As if it had seen `tokens`. Throws std::invalid_argument, changing nothing, where it cannot
  // have.
  void replay(std::span<const uint32_t> tokens, size_t skipped, bool waiting);

 private:
  void expect_token(uint32_t token) const;
  void begin(size_t start);
  static bool follow(GrammarMatcher& matcher, const Vocabulary& vocabulary,
                     std::span<const uint32_t> tokens, size_t skipped);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const GrammarTriggers> triggers_;  // null: not lazy
  bool masks_first_;
  bool waiting_;
  GrammarMatcher matcher_;
  std::vector<uint32_t> tokens_;
  size_t skipped_ = 0;
  std::string seen_;  // the text of a waiting one
};

}  // namespace mlx_sampling

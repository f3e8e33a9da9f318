// How far one request's text has come in its grammar. Copies go their own ways. Not for several
// threads at a time; different matchers of one grammar are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/grammar.h"
#include "core/in_use.h"

namespace mlx_sampling {

// Every member may throw std::runtime_error where the parses of the text take too much memory;
// then, as with whatever is refused, nothing has changed.
class GrammarMatcher {
 public:
  static constexpr const char* use_name = "matcher";
  const UseFlag& use_flag() const { return use_; }  // for callers with several threads

  explicit GrammarMatcher(std::shared_ptr<const Grammar> grammar);

  const Grammar& grammar() const { return *grammar_; }

  // Takes a token, as text or by a token literal: by its id, between tokens only, and whatever it
  // writes; a negated literal takes every other token but those that end, or write nothing and have
  // no name. False: it does not match, and nothing changed.
  // An end token matches where the text may end, and nothing after it does. Throws
  // std::invalid_argument without a vocabulary and for ids outside of it.
  bool accept_token(uint32_t token);
  bool can_accept(uint32_t token) const;

  // Takes bytes, which no token literal matches. False: they do not match, and nothing changed.
  bool accept_text(std::string_view bytes);

  // How many of `bytes` can be taken, one after the other, before one does not match.
  size_t viable_prefix(std::string_view bytes) const;

  // Sets the bits of the tokens that can be accepted, and clears all others. Throws
  // std::invalid_argument where there are not exactly ceil(vocabulary size / 32) words.
  void fill_bitmask(std::span<uint32_t> words) const;

  // Whether the text may end here, which it never may within a character.
  bool is_completed() const { return set_->completed; }

  // Whether an end token was accepted.
  bool is_terminated() const { return terminated_; }

  // Tokens that must come next: as long as exactly one can be accepted, up to `limit` of them. An
  // end token that must come is the last.
  std::vector<uint32_t> forced_tokens(size_t limit = 1024) const;

  // Tokens and texts accepted since the start, and all that is needed to come here again.
  struct Step {
    bool is_text;
    uint32_t token;
    std::string_view text;  // valid until the matcher changes
  };
  size_t steps() const { return steps_.size(); }
  Step step(size_t index) const;

  // Takes back the last `count` steps. Throws std::invalid_argument where there are fewer.
  void rollback(size_t count);
  void reset();

 private:
  struct Taken {
    const EarleySet* before;  // null where it would have to be found again
    size_t text;              // where its text begins in `texts_`
    uint32_t token;           // or `no_token`
  };

  // Sets to look ahead in: the shared ones, or, where these are full, of this call only.
  struct View {
    std::shared_ptr<const EarleySets> sets;
    const EarleySet* set;
  };
  View view() const;

  uint32_t checked(uint32_t token) const;
  const EarleySet* after_bytes(const EarleySets& sets, const EarleySet* set,
                               std::string_view bytes) const;
  const EarleySet* after_token(const EarleySets& sets, const EarleySet* set, uint32_t token) const;
  void take(const EarleySet* next, uint32_t token, std::string_view text);
  void move_on_when_full();

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const EarleySets> sets_;
  const EarleySet* set_;
  std::vector<Taken> steps_;
  std::string texts_;  // of the steps that are texts
  bool terminated_ = false;
  UseFlag use_;
};

}  // namespace mlx_sampling

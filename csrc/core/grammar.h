// A grammar ready to be matched with a vocabulary: immutable, shared by all requests that use it.
// What they find out about it is kept, so that none works it out again. The short cuts taken when
// it is compiled, and when sets and bitmasks are made, are off without fast_paths(): the answers
// are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/earley_sets.h"
#include "core/grammar_automaton.h"
#include "core/grammar_mask.h"
#include "core/grammar_syntax.h"
#include "core/vocabulary.h"

namespace mlx_sampling {

class Grammar {
 public:
  // Without a vocabulary, for texts only. Throws std::invalid_argument for a grammar whose root
  // matches no text or that is too large, and for token literals that the vocabulary does not have.
  static std::shared_ptr<const Grammar> compile(const GrammarSyntax& syntax,
                                                std::shared_ptr<const Vocabulary> vocabulary);

  // Null where the grammar is for texts only.
  const Vocabulary* vocabulary() const { return vocabulary_.get(); }

  // Of the syntax and the vocabulary: equal for equal ones, on any machine.
  uint64_t fingerprint() const { return fingerprint_; }

  const GrammarAutomaton& automaton() const { return *automaton_; }
  const GrammarTokens& tokens() const { return *tokens_; }  // where there is a vocabulary

  // What requests share. New ones are begun where these are full, and old ones go with the last
  // request that holds them.
  std::shared_ptr<const EarleySets> sets() const;

  // Sets that nobody shares.
  std::shared_ptr<const EarleySets> fresh_sets() const;

 private:
  Grammar(std::shared_ptr<const GrammarAutomaton> automaton,
          std::shared_ptr<const Vocabulary> vocabulary, uint64_t fingerprint);

  const std::shared_ptr<const GrammarAutomaton> automaton_;
  const std::shared_ptr<const Vocabulary> vocabulary_;
  const std::unique_ptr<const GrammarTokens> tokens_;
  const uint64_t fingerprint_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const EarleySets> sets_;
};

}  // namespace mlx_sampling

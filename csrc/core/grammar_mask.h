// Which tokens a set of parses can take, as a bitmask over the vocabulary.
//
// What a token may do within one rule does not depend on what the rule stands in. So the answer for
// the items of a set that have one parent is found once per grammar: the tokens that stay inside,
// and the places in the trie where the rule ends before the token does. From these places on it is
// found in the same way for the items of the parent: once per pair, triple and so on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/earley_sets.h"
#include "core/vocabulary.h"

namespace mlx_sampling {

// The tokens that a grammar is matched with.
struct GrammarTokens {
  GrammarTokens(std::shared_ptr<const Vocabulary> vocabulary, const GrammarAutomaton& automaton);

  size_t words() const { return (vocabulary->size() + 31) / 32; }

  std::shared_ptr<const Vocabulary> vocabulary;
  std::vector<std::vector<uint32_t>> set_bitmasks;  // of the automaton's token sets
};

// Sets the bits of the tokens that `set` can take, and clears all others. End tokens are allowed
// where `set` is completed. `words`: as many as `tokens.words()`.
void fill_bitmask(const EarleySets& sets, const GrammarTokens& tokens, const EarleySet* set,
                  std::span<uint32_t> words);

}  // namespace mlx_sampling

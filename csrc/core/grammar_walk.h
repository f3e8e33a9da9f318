// A walk over the vocabulary's trie along the sets that its bytes lead to.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "core/earley_sets.h"
#include "core/vocabulary.h"

namespace mlx_sampling {

// Nodes of the subtree of `root`: those that end a character, and are on a path on which at least
// `characters` characters have begun.
struct EndTree {
  uint32_t root;
  uint32_t characters;
  auto operator<=>(const EndTree&) const = default;
};

// Tokens side by side in the trie's order.
struct TokenRun {
  uint32_t first;
  uint32_t end;
  auto operator<=>(const TokenRun&) const = default;
};

class GrammarWalk {
 public:
  // `whole_subtrees`: takes subtrees at once whose bytes all lead back to one set.
  GrammarWalk(const EarleySets& sets, const Vocabulary& vocabulary, bool whole_subtrees)
      : sets_(sets), trie_(vocabulary.trie_summary()), whole_subtrees_(whole_subtrees) {}

  // From `set` at `node` of the vocabulary's trie summary, over all that is below.
  void below(const EarleySet* set, uint32_t node);

  // The same at every node of each tree.
  void below_each(const EarleySet* set, std::span<const EndTree> trees);

  // Found so far, by all walks: tokens that match, and nodes where a set is completed before some
  // token's end, one by one and many at once.
  std::vector<TokenRun> tokens;
  std::vector<uint32_t> ends;
  std::vector<EndTree> end_trees;

  // Sorts all of these and leaves each out but once.
  void sort();

 private:
  void take(uint32_t first, uint32_t end);
  bool take_subtree(const EarleySet* before, uint32_t node);
  bool loops_now(const EarleySet* before, const EarleySet* next) const;
  ByteSummary first_bytes(const EarleySet* set) const;
  void below_tree(const EarleySet* set, const EndTree& tree, const ByteSummary& first);

  const EarleySets& sets_;
  const TrieSummary& trie_;
  const bool whole_subtrees_;

  struct Place {
    const EarleySet* set;
    uint32_t node;  // the next of the children that it is the set before
  };
  std::vector<Place> path_;
};

// Sets `words` to the bits of the tokens of `runs`, which are sorted and do not overlap.
void write_bitmask(const Vocabulary& vocabulary, std::span<const TokenRun> runs,
                   std::span<uint32_t> words);

}  // namespace mlx_sampling

// A walk over the vocabulary's trie along the sets that its bytes lead to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/earley_sets.h"
#include "core/vocabulary.h"

namespace mlx_sampling {

class GrammarWalk {
 public:
  // `whole_subtrees`: takes what is below a node at once where all of it leads back to one set.
  GrammarWalk(const EarleySets& sets, const Vocabulary& vocabulary, bool whole_subtrees)
      : sets_(sets),
        vocabulary_(vocabulary),
        nodes_(vocabulary.trie().nodes()),
        whole_subtrees_(whole_subtrees),
        path_(vocabulary.trie().longest() + 1) {}

  // From `set` at `node`, over all that is below.
  void below(const EarleySet* set, uint32_t node);

  // The same at every node of the subtree of `root` that ends a character, itself included.
  void below_each(const EarleySet* set, uint32_t root);

  // Found so far, by all walks: tokens that match; nodes where a set is completed before some
  // token's end; and nodes of which that is true for all of the subtree that
  // ends a character.
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> ends;
  std::vector<uint32_t> end_trees;

 private:
  void take(std::span<const uint32_t> found) {
    tokens.insert(tokens.end(), found.begin(), found.end());
  }
  bool takes_whole(const EarleySet* before, const EarleySet* set, uint32_t node) const;

  const EarleySets& sets_;
  const Vocabulary& vocabulary_;
  const std::span<const TokenTrie::Node> nodes_;
  const bool whole_subtrees_;
  std::vector<const EarleySet*> path_;  // by depth
};

}  // namespace mlx_sampling

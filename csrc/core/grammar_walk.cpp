#include "core/grammar_walk.h"

namespace mlx_sampling {

bool GrammarWalk::takes_whole(const EarleySet* before, const EarleySet* set, uint32_t node) const {
  const ByteSummary* loops = set->loops.load(std::memory_order_acquire);
  if (loops == nullptr) {
    if (before != set) return false;
    loops = &sets_.loops(set);
  }
  const ByteSummary& below = vocabulary_.trie_summary().below(node);
  return below.is_inside(*loops) && (!below.wide || vocabulary_.trie_summary().is_clean(node));
}

void GrammarWalk::below(const EarleySet* set, uint32_t node) {
  const TokenTrie& trie = vocabulary_.trie();
  const auto& class_of = sets_.automaton().class_of;
  path_[nodes_[node].depth] = set;
  for (uint32_t i = node + 1, end = nodes_[node].end; i < end;) {
    const TokenTrie::Node& here = nodes_[i];
    const EarleySet* const before = path_[here.depth - 1];
    const EarleySet* const next = sets_.step(before, class_of[here.byte]);
    if (next->is_dead()) {
      i = here.end;
      continue;
    }
    take(trie.tokens_at(i));
    if (here.end == i + 1) {
      ++i;
      continue;
    }
    if (whole_subtrees_ && takes_whole(before, next, i)) {
      const auto all = trie.tokens_below(i);
      take(all.subspan(trie.tokens_at(i).size()));
      if (next->completed) end_trees.push_back(i);
      i = here.end;
      continue;
    }
    if (next->completed) ends.push_back(i);
    path_[here.depth] = next;
    i = next->items.empty() ? here.end : i + 1;
  }
}

void GrammarWalk::below_each(const EarleySet* set, uint32_t root) {
  const auto& class_of = sets_.automaton().class_of;
  const TrieSummary& summary = vocabulary_.trie_summary();
  const bool wide = summary.below(root).wide;
  for (uint32_t i = root; i < nodes_[root].end; ++i) {
    if (wide && !summary.ends_character(i)) continue;
    bool any = false;
    for (uint32_t child = i + 1; child < nodes_[i].end && !any; child = nodes_[child].end) {
      any = !sets_.step(set, class_of[nodes_[child].byte])->is_dead();
    }
    if (any) below(set, i);
  }
}

}  // namespace mlx_sampling

#include "core/grammar_walk.h"

#include <algorithm>

namespace mlx_sampling {
namespace {

template <typename T>
void sort_unique(std::vector<T>& values) {
  if (!std::is_sorted(values.begin(), values.end())) std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

// Tokens from `first` up to `end` in the trie's order, which come after those taken before.
void GrammarWalk::take(uint32_t first, uint32_t end) {
  if (first == end) return;
  if (!tokens.empty() && tokens.back().end == first) {
    tokens.back().end = end;
  } else {
    tokens.push_back({first, end});
  }
}

// Takes the subtree of `node`, whose parent `before` is the set of, if all of it leads back there.
bool GrammarWalk::take_subtree(const EarleySet* before, uint32_t node) {
  const EarleyLoops* const loops = before->loops.load(std::memory_order_acquire);
  const TrieSummary::Node& here = trie_.node(node);
  if (loops == nullptr || !loops->takes(here)) return false;
  const uint32_t begun = here.characters - (here.begins_character() ? 1 : 0);
  const uint32_t most = here.most_characters - begun;
  uint32_t missing = before->completed ? 0 : most + 1;  // characters before the rule may end
  if (loops->counted) {
    if (loops->maximum - loops->done < most) return false;
    missing = loops->minimum - std::min(loops->minimum, loops->done);
  }
  take(here.tokens, here.tokens_end);
  if (missing <= most) end_trees.push_back({node, begun + missing});
  return true;
}

// Whether `before` was found to be one of those that bytes lead back to.
bool GrammarWalk::loops_now(const EarleySet* before, const EarleySet* next) const {
  if (before->loops.load(std::memory_order_relaxed) != nullptr) return false;
  if (before != next && !sets_.may_count(before)) return false;
  sets_.loops(before);
  return true;
}

void GrammarWalk::below(const EarleySet* set, uint32_t node) {
  const auto& class_of = sets_.automaton().class_of;
  if (trie_.node(node).children == 0) return;
  path_.push_back({set, trie_.node(node).children});
  while (!path_.empty()) {
    const auto [before, i] = path_.back();
    const TrieSummary::Node& here = trie_.node(i);
    if (here.is(TrieSummary::Node::last)) {
      path_.pop_back();
    } else {
      ++path_.back().node;
    }
    if (whole_subtrees_ && take_subtree(before, i)) continue;
    const EarleySet* const next = sets_.step(before, class_of[here.byte]);
    if (next->is_dead()) continue;
    if (whole_subtrees_ && loops_now(before, next) && take_subtree(before, i)) continue;
    take(here.tokens, trie_.own_tokens_end(here));
    if (here.children == 0) continue;
    if (next->completed) ends.push_back(i);
    if (!next->items.empty()) path_.push_back({next, here.children});
  }
}

ByteSummary GrammarWalk::first_bytes(const EarleySet* set) const {
  ByteSummary bytes;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const EarleySet* const next = sets_.step(set, sets_.automaton().class_of[byte]);
    if (!next->is_dead()) bytes.add(static_cast<uint8_t>(byte));
  }
  return bytes;
}

void GrammarWalk::below_each(const EarleySet* set, std::span<const EndTree> trees) {
  if (trees.empty()) return;
  const ByteSummary first = first_bytes(set);
  for (const EndTree& tree : trees) below_tree(set, tree, first);
}

void GrammarWalk::below_tree(const EarleySet* set, const EndTree& tree, const ByteSummary& first) {
  const bool wide = trie_.node(tree.root).is(TrieSummary::Node::wide);
  std::vector<uint32_t> pending = {tree.root};
  while (!pending.empty()) {
    const uint32_t i = pending.back();
    const TrieSummary::Node& here = trie_.node(i);
    pending.pop_back();
    if (!here.meets(first) || here.most_characters < tree.characters || here.children == 0) {
      continue;
    }
    const bool between = !wide || here.is(TrieSummary::Node::character);
    if (between && here.characters >= tree.characters) below(set, i);
    for (uint32_t child = here.children;; ++child) {
      pending.push_back(child);
      if (trie_.node(child).is(TrieSummary::Node::last)) break;
    }
  }
}

void GrammarWalk::sort() {
  sort_unique(ends);
  sort_unique(end_trees);
  const auto apart = [](const TokenRun& a, const TokenRun& b) { return a.end < b.first; };
  bool sorted = true;
  for (size_t i = 1; i < tokens.size(); ++i) sorted = sorted && apart(tokens[i - 1], tokens[i]);
  if (sorted) return;
  std::sort(tokens.begin(), tokens.end());
  size_t kept = 0;
  for (const TokenRun& run : tokens) {
    if (kept != 0 && run.first <= tokens[kept - 1].end) {
      tokens[kept - 1].end = std::max(tokens[kept - 1].end, run.end);
    } else {
      tokens[kept++] = run;
    }
  }
  tokens.resize(kept);
}

void write_bitmask(const Vocabulary& vocabulary, std::span<const TokenRun> runs,
                   std::span<uint32_t> words) {
  const auto tokens = vocabulary.trie().tokens();
  size_t count = 0;
  for (const TokenRun& run : runs) count += run.end - run.first;
  const bool rest = 2 * count > tokens.size();  // fewer bits to clear than to set
  if (rest) {
    std::copy(vocabulary.text_bitmask().begin(), vocabulary.text_bitmask().end(), words.begin());
  } else {
    std::fill(words.begin(), words.end(), 0u);
  }
  const auto flip = [&](size_t first, size_t end) {
    for (uint32_t token : tokens.subspan(first, end - first)) {
      words[token / 32] ^= 1u << (token % 32);
    }
  };
  size_t at = 0;
  for (const TokenRun& run : runs) {
    rest ? flip(at, run.first) : flip(run.first, run.end);
    at = run.end;
  }
  if (rest) flip(at, tokens.size());
}

}  // namespace mlx_sampling

#include "core/grammar_mask.h"

#include <algorithm>
#include <utility>

#include "core/fast_paths.h"
#include "core/grammar_walk.h"

namespace mlx_sampling {

// What the items of a local set can take from certain nodes of the trie on.
struct LocalMask {
  const EarleySet* local;
  std::vector<uint32_t> tokens;     // few
  std::vector<uint32_t> words;      // many, as a bitmask
  std::vector<uint32_t> ends;       // nodes at which the local text may end, with tokens below
  std::vector<uint32_t> end_trees;  // the same for every node of their subtrees
  mutable std::atomic<const LocalMask*> children = nullptr;  // from these nodes on
  mutable const LocalMask* sibling = nullptr;

  bool has_ends() const { return !ends.empty() || !end_trees.empty(); }
  size_t memory() const {
    return sizeof *this +
           4 * (tokens.capacity() + words.capacity() + ends.capacity() + end_trees.capacity());
  }
};

struct WholeMask {
  std::vector<uint32_t> words;
};

namespace {

// Masks put together for one fill before the walk over everything is thought to be cheaper.
constexpr int most_parts = 2'000;

void set_bits(std::span<const uint32_t> tokens, std::span<uint32_t> words) {
  for (uint32_t token : tokens) words[token / 32] |= 1u << (token % 32);
}

void add_words(std::span<const uint32_t> from, std::span<uint32_t> words) {
  for (size_t i = 0; i < words.size(); ++i) words[i] |= from[i];
}

class MaskFill {
 public:
  MaskFill(const EarleySets& sets, const GrammarTokens& tokens, std::span<uint32_t> words)
      : sets_(sets), tokens_(tokens), words_(words) {}

  void fill(const EarleySet* set) {
    std::fill(words_.begin(), words_.end(), 0u);
    if (!fast_paths()) {
      walk_all(set, false);
    } else if (!fill_by_parts(set)) {
      fill_whole(set);
    }
    if (set->completed) set_bits(tokens_.vocabulary->ends(), words_);
  }

 private:
  struct Part {
    const LocalMask* mask;
    const EarleySet* parent;
  };

  void walk_all(const EarleySet* set, bool whole_subtrees) {
    GrammarWalk walk(sets_, *tokens_.vocabulary, whole_subtrees);
    walk.below(set, 0);
    set_bits(walk.tokens, words_);
    add_literals(set);
  }

  void add_literals(const EarleySet* set) {
    for (uint32_t id : sets_.token_sets(set)) add_words(tokens_.set_bitmasks[id], words_);
  }

  void fill_whole(const EarleySet* set) {
    const WholeMask* known = set->whole_mask.load(std::memory_order_acquire);
    if (known == nullptr) {
      std::fill(words_.begin(), words_.end(), 0u);
      walk_all(set, true);
      auto made = std::make_unique<WholeMask>();
      made->words.assign(words_.begin(), words_.end());
      sets_.add_memory(sizeof *made + 4 * words_.size());
      known = sets_.keep(std::move(made));
      set->whole_mask.store(known, std::memory_order_release);
    }
    std::copy(known->words.begin(), known->words.end(), words_.begin());
  }

  bool fill_by_parts(const EarleySet* set) {
    if (set->whole_mask.load(std::memory_order_acquire) != nullptr) return false;
    add_literals(set);
    std::vector<Part> pending;
    const auto take = [&](const LocalMask* mask, const EarleySet* parent) {
      set_bits(mask->tokens, words_);
      if (!mask->words.empty()) add_words(mask->words, words_);
      if (mask->has_ends()) pending.push_back({mask, parent});
    };
    for (const EarleyGroup& group : sets_.groups(set)) take(first_mask(group.local), group.parent);
    for (int parts = 0; !pending.empty(); ++parts) {
      if (parts == most_parts) return false;
      const Part part = pending.back();
      pending.pop_back();
      for (const EarleyGroup& group : sets_.groups(part.parent)) {
        take(next_mask(*part.mask, group.local), group.parent);
      }
    }
    return true;
  }

  const LocalMask* first_mask(const EarleySet* local) {
    if (const LocalMask* known = local->local_mask.load(std::memory_order_acquire)) return known;
    GrammarWalk walk(sets_, *tokens_.vocabulary, true);
    walk.below(local, 0);
    const LocalMask* const made = keep(local, walk);
    local->local_mask.store(made, std::memory_order_release);
    return made;
  }

  // From where the text of `mask` may end, on with `local`.
  const LocalMask* next_mask(const LocalMask& mask, const EarleySet* local) {
    const LocalMask* const first = mask.children.load(std::memory_order_acquire);
    for (const LocalMask* child = first; child != nullptr; child = child->sibling) {
      if (child->local == local) return child;
    }
    GrammarWalk walk(sets_, *tokens_.vocabulary, true);
    for (uint32_t node : mask.ends) walk.below(local, node);
    for (uint32_t root : mask.end_trees) walk.below_each(local, root);
    return keep_child(mask, keep(local, walk));
  }

  static const LocalMask* keep_child(const LocalMask& mask, LocalMask* made) {
    const LocalMask* head = mask.children.load(std::memory_order_acquire);
    do {
      made->sibling = head;
    } while (!mask.children.compare_exchange_weak(head, made, std::memory_order_acq_rel));
    return made;
  }

  static void sort_unique(std::vector<uint32_t>& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    values.shrink_to_fit();
  }

  LocalMask* keep(const EarleySet* local, GrammarWalk& walk) {
    auto made = std::make_unique<LocalMask>();
    made->local = local;
    if (walk.tokens.size() > words_.size() / 2) {
      made->words.resize(words_.size());
      set_bits(walk.tokens, made->words);
    } else {
      made->tokens = std::move(walk.tokens);
      sort_unique(made->tokens);
    }
    made->ends = std::move(walk.ends);
    made->end_trees = std::move(walk.end_trees);
    sort_unique(made->ends);
    sort_unique(made->end_trees);
    sets_.add_memory(made->memory());
    return sets_.keep(std::move(made));
  }

  const EarleySets& sets_;
  const GrammarTokens& tokens_;
  const std::span<uint32_t> words_;
};

}  // namespace

GrammarTokens::GrammarTokens(std::shared_ptr<const Vocabulary> with,
                             const GrammarAutomaton& automaton)
    : vocabulary(std::move(with)) {
  for (const auto& set : automaton.token_sets) {
    std::vector<uint32_t> bitmask(words());
    set_bits(set.ids, bitmask);
    if (set.negated) {
      for (uint32_t token = 0; token < vocabulary->size(); ++token) {
        if (vocabulary->can_be_literal(token)) bitmask[token / 32] ^= 1u << (token % 32);
      }
    }
    set_bitmasks.push_back(std::move(bitmask));
  }
}

void fill_bitmask(const EarleySets& sets, const GrammarTokens& tokens, const EarleySet* set,
                  std::span<uint32_t> words) {
  MaskFill(sets, tokens, words).fill(set);
}

}  // namespace mlx_sampling

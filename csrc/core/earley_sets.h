// The sets of a grammar's parses, shared by all of its requests: which set follows which by a
// byte, worked out once. Any thread may ask; steps that are known take no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/earley_set.h"
#include "core/grammar_automaton.h"
#include "core/grammar_syntax.h"
#include "core/trie_summary.h"

namespace mlx_sampling {

class EarleyMaker;

class EarleySets {
 public:
  // `longest`: bytes of the longest token; counts that no token can tell apart are one in groups.
  EarleySets(std::shared_ptr<const GrammarAutomaton> automaton, size_t longest);
  ~EarleySets();

  const GrammarAutomaton& automaton() const { return *automaton_; }

  // Before any text.
  const EarleySet* start() const { return start_; }

  // The set after a byte of that class; a dead one where the byte does not match.
  const EarleySet* step(const EarleySet* set, uint8_t byte_class) const {
    if (const auto* steps = set->steps.load(std::memory_order_acquire)) {
      if (const EarleySet* next = steps[byte_class].load(std::memory_order_acquire)) return next;
    } else if (const auto* only = set->only_step.load(std::memory_order_acquire)) {
      if (only->byte_class == byte_class) return only->next;
    }
    return find_step(set, byte_class);
  }

  // The set after one of `token`, which token literals match, and `also`, which its bytes led to.
  const EarleySet* step_by_token(const EarleySet* set, uint32_t token, const EarleySet* also) const;
  const EarleySet* dead() const { return dead_; }

  // Token sets that can be matched here; some may be named more than once.
  std::vector<uint32_t> token_sets(const EarleySet* set) const;

  // The items by parent, each group with its counts brought down to the least that tokens cannot
  // tell apart from them.
  std::span<const EarleyGroup> groups(const EarleySet* set) const {
    const EarleyGroups* const known = set->groups.load(std::memory_order_acquire);
    return known != nullptr ? known->all : find_groups(set);
  }

  // Bytes that lead back to `set`: below 0x80 one by one, all longer characters as one.
  const ByteSummary& loops(const EarleySet* set) const {
    const ByteSummary* const known = set->loops.load(std::memory_order_acquire);
    return known != nullptr ? *known : find_loops(set);
  }

  // The same sets, which are of another EarleySets of the grammar.
  std::vector<const EarleySet*> import(std::span<const EarleySet* const> sets) const;

  // Bytes taken by sets and by what is kept with them.
  size_t memory() const { return memory_.load(std::memory_order_relaxed); }
  void add_memory(size_t bytes) const { memory_.fetch_add(bytes, std::memory_order_relaxed); }

  // Past this much, requests go on in new EarleySets. Past `most_memory` no set is made any more,
  // and what needs one throws std::runtime_error.
  static constexpr size_t enough_memory = size_t{32} << 20;
  static constexpr size_t most_memory = size_t{96} << 20;
  bool is_full() const { return memory() > enough_memory; }

  // Something that goes when these sets go.
  template <typename T>
  T* keep(std::unique_ptr<T> made) const {
    std::shared_ptr<T> shared = std::move(made);
    const std::lock_guard lock(kept_mutex_);
    kept_.push_back(shared);
    return shared.get();
  }

 private:
  const EarleySet* find_step(const EarleySet* set, uint8_t byte_class) const;
  void publish_step(const EarleySet* set, uint8_t byte_class, const EarleySet* next) const;
  std::span<const EarleyGroup> find_groups(const EarleySet* set) const;
  const ByteSummary& find_loops(const EarleySet* set) const;
  bool characters_lead_back(const EarleySet* set, CharRange range) const;

  const std::shared_ptr<const GrammarAutomaton> automaton_;
  mutable std::atomic<size_t> memory_ = 0;
  mutable std::mutex mutex_;  // of the maker
  const std::unique_ptr<EarleyMaker> maker_;
  const EarleySet* start_;
  const EarleySet* dead_;
  mutable std::mutex kept_mutex_;
  mutable std::deque<std::shared_ptr<const void>> kept_;
};

}  // namespace mlx_sampling

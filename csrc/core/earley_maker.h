// Makes the sets of EarleySets, which see to it that one thread does so at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <queue>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/earley_arena.h"
#include "core/earley_set.h"
#include "core/grammar_automaton.h"

namespace mlx_sampling {

// Rules that call each other first ("expr ::= expr ..."), predicted together: who waits for one of
// them waits for itself too. Told apart by what waits from outside.
struct EarleyInstance {
  struct Entry {
    uint32_t rule;
    const EarleySet* waiting;
  };
  std::vector<Entry> entries;                                // ascending by rule
  std::vector<std::pair<uint32_t, const EarleySet*>> after;  // rule; the set where it ends

  const EarleySet* after_rule(uint32_t rule) const;
};

// The set after a byte of any class from `first` to `last`.
struct EarleyAdvance {
  const EarleySet* next;
  uint32_t first;
  uint32_t last;
};

class EarleyMaker {
 public:
  using Items = std::vector<EarleyItem>;
  using Imported = std::unordered_map<const EarleySet*, const EarleySet*>;

  EarleyMaker(const GrammarAutomaton& automaton, size_t longest, std::atomic<size_t>& memory);

  const EarleySet* start();
  const EarleySet* dead() const { return &sets_[0]; }
  const EarleySet* accept() const { return accept_; }
  EarleyAdvance advance(const EarleySet* set, uint8_t byte_class);

  // Of a set that is one item of a counted rule between two repetitions, and may be completed by
  // its end: the same with one repetition more.
  const EarleySet* one_more(const EarleySet* set);
  const EarleySet* advance_by_token(const EarleySet* set, uint32_t token, const EarleySet* also);
  std::vector<uint32_t> token_sets(const EarleySet* set);
  std::span<const EarleyGroup> make_groups(const EarleySet* set);
  const EarleySet* import(const EarleySet* set, Imported& imported);

  EarleyArena& arena() { return arena_; }

 private:
  // What goes on where a rule that was just predicted ends.
  struct Waiting {
    Items arrivals;                       // states after the calls
    std::vector<const EarleySet*> tails;  // for tail calls: sets that go on as they are
  };

  // One rule of an instance that is being made.
  struct Member {
    uint32_t rule;
    const EarleySet* after;  // open: without its items
    Items items;
    bool completed = false;
    std::vector<uint32_t> from;  // members whose items this one has too
  };

  const EarleySet* make(std::span<const EarleyItem> items, bool completed);
  const EarleySet* intern(Items& items, bool completed);
  void settle(Items& arrivals, Items& items, bool& completed,
              std::vector<const EarleySet*>* open_ends);
  void complete(const EarleySet* parent, Items& items, bool& completed);
  void canonicalise(Items& items);
  void merge_counts(Items& items, size_t first);

  // What goes on in one set goes on in another too: see earley_subsets.cpp.
  bool is_subset(const EarleySet* small, const EarleySet* large, int depth);
  bool compare(const EarleySet* small, const EarleySet* large, int depth);
  void drop_subsets(Items& items);
  void drop_subsets(std::vector<Member>& members);

  const EarleySet* arrive(Items& arrivals);
  void expand(const EarleySet* set);
  void predict(uint32_t rule, const EarleySet* after);
  void call_from(const EarleyItem& item, uint32_t but_component);
  const EarleySet* waiting_set(Waiting& waiting);
  void enter_component(std::vector<uint32_t>& rules);

  const EarleyInstance* instance(std::vector<EarleyInstance::Entry> entries);
  std::vector<Member> members_of(const std::vector<EarleyInstance::Entry>& entries);
  void connect(std::vector<Member>& members);
  void flow(std::vector<Member>& members);
  const EarleyInstance* equal_instance(std::vector<Member>& members);

  bool is_counted_start(uint32_t state) const { return automaton_.is_counted_start(state); }
  EarleyItem least_alike(EarleyItem item) const;
  const EarleySet* import_ready(const EarleySet* set, const Imported& imported);

  const GrammarAutomaton& automaton_;
  const uint64_t longest_;
  std::atomic<size_t>& memory_;
  EarleyArena arena_;
  std::deque<EarleySet> sets_;
  std::vector<const EarleySet*> table_;  // of interned sets, open addressing
  size_t interned_ = 0;
  const EarleySet* accept_ = nullptr;  // nothing but the end comes after
  std::map<std::vector<uint32_t>, EarleyInstance> instances_;

  // Of the expansion that is being made.
  std::unordered_map<uint32_t, Waiting> waiting_;  // by rule
  using Pending = std::pair<uint32_t, uint32_t>;   // component and rule
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> queue_;
  Items expanded_;

  // Of the steps that are worked out.
  Items arrivals_;
  Items settled_;
  Items sorted_;
  uint32_t stamp_ = 0;
  std::vector<Member>* members_ = nullptr;      // of the instance that is being made
  std::unordered_map<uint64_t, bool> subsets_;  // pairs of sets that were compared
};

}  // namespace mlx_sampling

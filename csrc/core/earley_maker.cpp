#include "core/earley_maker.h"

#include <algorithm>
#include <tuple>

#include "core/earley_sets.h"
#include "core/error.h"

namespace mlx_sampling {
namespace {

constexpr uint32_t no_component = ~0u;

uint64_t hash_of(std::span<const EarleyItem> items, bool completed) {
  uint64_t hash = completed ? 0x9E3779B97F4A7C15u : 0xD1B54A32D192ED03u;
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 32;
  };
  for (const EarleyItem& item : items) {
    mix(uint64_t{item.parent->id} << 32 | item.state);
    mix(uint64_t{item.least} << 32 | item.most);
  }
  return hash;
}

bool equal(const EarleySet& set, std::span<const EarleyItem> items, bool completed) {
  return set.completed == completed && set.items.size() == items.size() &&
         std::equal(items.begin(), items.end(), set.items.begin());
}

}  // namespace

EarleyMaker::EarleyMaker(const GrammarAutomaton& automaton, size_t longest,
                         std::atomic<size_t>& memory)
    : automaton_(automaton), longest_(longest), memory_(memory), arena_(memory), table_(64) {
  Items none;
  intern(none, false);
  accept_ = intern(none, true);
}

const EarleySet* EarleyMaker::start() {
  Items items = {{accept_, automaton_.rules[automaton_.root].start, 0, 0}};
  return intern(items, automaton_.root_is_nullable);
}

const EarleySet* EarleyMaker::make(std::span<const EarleyItem> items, bool completed) {
  if (memory_.load(std::memory_order_relaxed) > EarleySets::most_memory) {
    refuse<std::runtime_error>("[grammar] Expected a text whose parses take at most ",
                               EarleySets::most_memory >> 20,
                               " MiB, got one with more: it is too deep, or the grammar too "
                               "ambiguous.");
  }
  EarleySet& set = sets_.emplace_back();
  memory_.fetch_add(sizeof set, std::memory_order_relaxed);
  set.id = static_cast<uint32_t>(sets_.size() - 1);
  set.items = arena_.copy(items);
  set.completed = completed;
  return &set;
}

const EarleySet* EarleyMaker::intern(Items& items, bool completed) {
  canonicalise(items);
  if (2 * (interned_ + 1) > table_.size()) {
    std::vector<const EarleySet*> old(table_.size() * 2);
    memory_.fetch_add(table_.size() * sizeof(void*), std::memory_order_relaxed);
    old.swap(table_);
    for (const EarleySet* set : old) {
      if (set == nullptr) continue;
      size_t at = hash_of(set->items, set->completed) & (table_.size() - 1);
      while (table_[at] != nullptr) at = (at + 1) & (table_.size() - 1);
      table_[at] = set;
    }
  }
  size_t at = hash_of(items, completed) & (table_.size() - 1);
  for (; table_[at] != nullptr; at = (at + 1) & (table_.size() - 1)) {
    if (equal(*table_[at], items, completed)) return table_[at];
  }
  const EarleySet* const set = make(items, completed);
  table_[at] = set;
  ++interned_;
  return set;
}

// Counts of items that are alike otherwise, ascending: from the minimum on the least stands for
// all, as whatever can follow more repetitions can follow fewer; below it, neighbours are merged.
void EarleyMaker::merge_counts(Items& items, size_t first) {
  const GrammarAutomaton::Rule& rule = automaton_.rule_of(items[first].state);
  const bool between = is_counted_start(items[first].state);
  const uint32_t enough = between || rule.minimum == 0 ? rule.minimum : rule.minimum - 1;
  size_t last = first;
  for (size_t i = first; i < items.size(); ++i) {
    EarleyItem item = items[i];
    if (item.most >= enough) {
      if (rule.maximum == no_maximum) item.least = std::min(item.least, enough);
      item.most = std::max(item.least, enough);
    }
    if (i != first && item.least <= uint64_t{items[last].most} + 1) {
      items[last].most = std::max(items[last].most, item.most);
    } else {
      items[last += i == first ? 0 : 1] = item;
    }
    if (item.most >= enough) break;
  }
  items.resize(last + 1);
}

void EarleyMaker::canonicalise(Items& items) {
  const auto key = [](const EarleyItem& item) {
    return std::tuple(item.state, item.parent->id, item.least, item.most);
  };
  if (items.size() > 1) {
    std::sort(items.begin(), items.end(),
              [&](const EarleyItem& a, const EarleyItem& b) { return key(a) < key(b); });
  }
  sorted_.clear();
  for (size_t i = 0; i < items.size();) {
    const size_t first = sorted_.size();
    const EarleyItem item = items[i];
    for (; i < items.size() && items[i].state == item.state && items[i].parent == item.parent;
         ++i) {
      if (sorted_.size() == first || sorted_.back() != items[i]) sorted_.push_back(items[i]);
    }
    if (automaton_.rule_of(item.state).counted) merge_counts(sorted_, first);
  }
  items.swap(sorted_);
  drop_subsets(items);
}

void EarleyMaker::complete(const EarleySet* parent, Items& items, bool& completed) {
  if (parent->stamp == stamp_) return;
  parent->stamp = stamp_;
  items.insert(items.end(), parent->items.begin(), parent->items.end());
  completed |= parent->completed;
}

// What states that were just reached come to: where a rule ends, what waited for it. Sets keep
// only items that more can follow, so that a set's items need no second look. Where a parent is
// still being made it is listed in `open_ends`.
void EarleyMaker::settle(Items& arrivals, Items& items, bool& completed,
                         std::vector<const EarleySet*>* open_ends) {
  ++stamp_;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    EarleyItem item = arrivals[i];
    const GrammarAutomaton::State& state = automaton_.states[item.state];
    const GrammarAutomaton::Rule& rule = automaton_.rules[state.rule];
    if (state.again) {
      const uint64_t most = std::min<uint64_t>(uint64_t{item.most} + 1, rule.maximum);
      arrivals.push_back({item.parent, rule.start, item.least + 1, static_cast<uint32_t>(most)});
    }
    const bool between = rule.counted && rule.start == item.state;
    if (state.final || (between && item.most >= rule.minimum)) {
      if (open_ends != nullptr) {
        open_ends->push_back(item.parent);
      } else {
        complete(item.parent, items, completed);
      }
    }
    if (!state.has_edges || (between && item.least >= rule.maximum)) continue;
    if (between) item.most = std::min(item.most, rule.maximum - 1);
    items.push_back(item);
  }
}

const EarleySet* EarleyMaker::waiting_set(Waiting& waiting) {
  auto& tails = waiting.tails;
  std::sort(tails.begin(), tails.end(),
            [](const EarleySet* a, const EarleySet* b) { return a->id < b->id; });
  tails.erase(std::unique(tails.begin(), tails.end()), tails.end());
  if (waiting.arrivals.empty() && tails.size() == 1) return tails[0];
  Items items;
  bool completed = false;
  settle(waiting.arrivals, items, completed, nullptr);
  for (const EarleySet* tail : tails) complete(tail, items, completed);
  return intern(items, completed);
}

void EarleyMaker::call_from(const EarleyItem& item, uint32_t but_component) {
  for (const auto& call : automaton_.calls_of(item.state)) {
    const uint32_t component = automaton_.rules[call.rule].component;
    if (component == but_component) continue;
    const auto [at, is_new] = waiting_.try_emplace(call.rule);
    if (is_new) queue_.push({component, call.rule});
    if (call.tail) {
      at->second.tails.push_back(item.parent);
    } else {
      at->second.arrivals.push_back({item.parent, call.target, item.least, item.most});
    }
  }
}

void EarleyMaker::predict(uint32_t rule, const EarleySet* after) {
  expanded_.push_back({after, automaton_.rules[rule].start, 0, 0});
  call_from(expanded_.back(),
            automaton_.rules[rule].cyclic ? automaton_.rules[rule].component : no_component);
}

// A set's items and those of all rules that may begin here. Callers have lower components than
// what they call, so that a rule's turn comes when all that wait for it are known.
void EarleyMaker::expand(const EarleySet* set) {
  if (set->is_expanded) return;
  waiting_.clear();
  queue_ = {};
  expanded_.assign(set->items.begin(), set->items.end());
  for (const EarleyItem& item : set->items) call_from(item, no_component);
  while (!queue_.empty()) {
    const auto [component, rule] = queue_.top();
    if (!automaton_.rules[rule].cyclic) {
      queue_.pop();
      predict(rule, waiting_set(waiting_[rule]));
      continue;
    }
    std::vector<uint32_t> rules;
    for (; !queue_.empty() && queue_.top().first == component; queue_.pop()) {
      rules.push_back(queue_.top().second);
    }
    enter_component(rules);
  }
  set->expanded = arena_.copy(std::span<const EarleyItem>(expanded_));
  set->is_expanded = true;
}

const EarleySet* EarleyMaker::arrive(Items& arrivals) {
  settled_.clear();
  bool completed = false;
  settle(arrivals, settled_, completed, nullptr);
  return intern(settled_, completed);
}

// With the classes that no edge tells apart from this one.
EarleyAdvance EarleyMaker::advance(const EarleySet* set, uint8_t byte_class) {
  expand(set);
  arrivals_.clear();
  uint32_t first = 0;
  uint32_t last = automaton_.classes - 1;
  for (const EarleyItem& item : set->expanded) {
    for (const auto& edge : automaton_.bytes_of(item.state)) {
      if (edge.first > byte_class) {
        last = std::min<uint32_t>(last, edge.first - 1u);
        break;
      }
      if (edge.last < byte_class) {
        first = std::max<uint32_t>(first, edge.last + 1u);
        continue;
      }
      first = std::max<uint32_t>(first, edge.first);
      last = std::min<uint32_t>(last, edge.last);
      arrivals_.push_back({item.parent, edge.target, item.least, item.most});
    }
  }
  return {arrivals_.empty() ? dead() : arrive(arrivals_), first, last};
}

const EarleySet* EarleyMaker::one_more(const EarleySet* set) {
  Items arrivals = {set->items[0]};
  ++arrivals[0].least;
  ++arrivals[0].most;
  return arrive(arrivals);
}

const EarleySet* EarleyMaker::advance_by_token(const EarleySet* set, uint32_t token,
                                               const EarleySet* also) {
  expand(set);
  Items arrivals;
  for (const EarleyItem& item : set->expanded) {
    for (const auto& edge : automaton_.tokens_of(item.state)) {
      const GrammarAutomaton::TokenSet& tokens = automaton_.token_sets[edge.set];
      if (std::binary_search(tokens.ids.begin(), tokens.ids.end(), token) == tokens.negated) {
        continue;
      }
      arrivals.push_back({item.parent, edge.target, item.least, item.most});
    }
  }
  if (arrivals.empty()) return also;
  Items items(also->items.begin(), also->items.end());
  bool completed = also->completed;
  settle(arrivals, items, completed, nullptr);
  return intern(items, completed);
}

std::vector<uint32_t> EarleyMaker::token_sets(const EarleySet* set) {
  expand(set);
  std::vector<uint32_t> sets;
  for (const EarleyItem& item : set->expanded) {
    for (const auto& edge : automaton_.tokens_of(item.state)) sets.push_back(edge.set);
  }
  return sets;
}

// A token ends at most `longest_` repetitions. Where it can neither reach the minimum nor, from
// there on, the maximum, how many are missing makes no difference to it.
EarleyItem EarleyMaker::least_alike(EarleyItem item) const {
  const GrammarAutomaton::Rule& rule = automaton_.rule_of(item.state);
  if (item.most + longest_ < rule.minimum) return {accept_, item.state, 0, 0};
  const bool endless = rule.maximum == no_maximum || item.most + longest_ < rule.maximum;
  if (item.least >= rule.minimum && endless) {
    return {accept_, item.state, rule.minimum, rule.minimum};
  }
  return {accept_, item.state, item.least, item.most};
}

std::span<const EarleyGroup> EarleyMaker::make_groups(const EarleySet* set) {
  Items items(set->items.begin(), set->items.end());
  std::stable_sort(items.begin(), items.end(), [](const EarleyItem& a, const EarleyItem& b) {
    return a.parent->id < b.parent->id;
  });
  std::vector<EarleyGroup> groups;
  for (size_t i = 0; i < items.size();) {
    const EarleySet* const parent = items[i].parent;
    Items local;
    for (; i < items.size() && items[i].parent == parent; ++i) {
      local.push_back(least_alike(items[i]));
    }
    groups.push_back({intern(local, false), parent});
  }
  return arena_.copy(std::span<const EarleyGroup>(groups));
}

}  // namespace mlx_sampling

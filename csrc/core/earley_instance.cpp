// Left recursion, and sets brought over from other EarleySets: where sets are not told apart by
// their items alone.
#include <algorithm>
#include <utility>

#include "core/earley_maker.h"
#include "core/fast_paths.h"

namespace mlx_sampling {

const EarleySet* EarleyInstance::after_rule(uint32_t rule) const {
  const auto at = std::lower_bound(after.begin(), after.end(), rule,
                                   [](const auto& pair, uint32_t r) { return pair.first < r; });
  return at != after.end() && at->first == rule ? at->second : nullptr;
}

void EarleyMaker::enter_component(std::vector<uint32_t>& rules) {
  std::vector<EarleyInstance::Entry> entries;
  for (uint32_t rule : rules) entries.push_back({rule, waiting_set(waiting_[rule])});
  const EarleyInstance* const found = instance(std::move(entries));
  for (const auto& [rule, after] : found->after) predict(rule, after);
}

const EarleyInstance* EarleyMaker::instance(std::vector<EarleyInstance::Entry> entries) {
  std::vector<uint32_t> key;
  for (const auto& [rule, waiting] : entries) key.insert(key.end(), {rule, waiting->id});
  if (const auto known = instances_.find(key); known != instances_.end()) return &known->second;

  std::vector<Member> members = members_of(entries);
  connect(members);
  flow(members);
  drop_subsets(members);
  EarleyInstance made;
  if (const EarleyInstance* same = equal_instance(members)) {
    made.after = same->after;
    made.entries = same->entries;
    return &(instances_[key] = std::move(made));
  }
  EarleyInstance& kept = instances_[key];
  kept.entries = std::move(entries);
  for (Member& member : members) {
    EarleySet& set = sets_[member.after->id];
    set.items = arena_.copy(std::span<const EarleyItem>(member.items));
    set.completed = member.completed;
    set.instance = &kept;
    set.is_open = false;
    kept.after.emplace_back(member.rule, &set);
  }
  memory_.fetch_add(256 + 32 * members.size(), std::memory_order_relaxed);
  return &kept;
}

// The rules that are entered and those of their component that these call first, by rule.
std::vector<EarleyMaker::Member> EarleyMaker::members_of(
    const std::vector<EarleyInstance::Entry>& entries) {
  std::vector<uint32_t> rules;
  for (const auto& entry : entries) rules.push_back(entry.rule);
  const uint32_t component = automaton_.rules[rules[0]].component;
  for (size_t i = 0; i < rules.size(); ++i) {
    for (const auto& call : automaton_.calls_of(automaton_.rules[rules[i]].start)) {
      if (automaton_.rules[call.rule].component == component &&
          std::find(rules.begin(), rules.end(), call.rule) == rules.end()) {
        rules.push_back(call.rule);
      }
    }
  }
  std::sort(rules.begin(), rules.end());
  std::vector<Member> members;
  for (uint32_t rule : rules) {
    members.push_back({rule, make({}, false), {}, false, {}});
    members.back().after->is_open = true;
  }
  for (const auto& [rule, waiting] : entries) {
    Member& member = members[std::lower_bound(rules.begin(), rules.end(), rule) - rules.begin()];
    member.items.assign(waiting->items.begin(), waiting->items.end());
    member.completed = waiting->completed;
  }
  return members;
}

// Adds what the members' own first calls leave waiting.
void EarleyMaker::connect(std::vector<Member>& members) {
  const auto find = [&](uint32_t rule) {
    const auto at = std::lower_bound(members.begin(), members.end(), rule,
                                     [](const Member& m, uint32_t r) { return m.rule < r; });
    return at != members.end() && at->rule == rule ? &*at : nullptr;
  };
  for (uint32_t caller = 0; caller < members.size(); ++caller) {
    const uint32_t start = automaton_.rules[members[caller].rule].start;
    for (const auto& call : automaton_.calls_of(start)) {
      Member* const callee = find(call.rule);
      if (callee == nullptr) continue;
      if (call.tail) {
        callee->from.push_back(caller);
        continue;
      }
      Items arrivals = {{members[caller].after, call.target, 0, 0}};
      std::vector<const EarleySet*> ends;
      settle(arrivals, callee->items, callee->completed, &ends);
      if (!ends.empty()) callee->from.push_back(caller);
    }
  }
}

void EarleyMaker::flow(std::vector<Member>& members) {
  for (Member& member : members) canonicalise(member.items);
  for (bool changed = true; changed;) {
    changed = false;
    for (Member& member : members) {
      Items items = member.items;
      bool completed = member.completed;
      for (uint32_t other : member.from) {
        const Items& more = members[other].items;
        items.insert(items.end(), more.begin(), more.end());
        completed |= members[other].completed;
      }
      canonicalise(items);
      if (items == member.items && completed == member.completed) continue;
      member.items.swap(items);
      member.completed = completed;
      changed = true;
    }
  }
}

// An instance that waits outside already, and that these members would equal if they were it: then
// they are. Without this, "s ::= s s | ..." would have new sets for each byte.
const EarleyInstance* EarleyMaker::equal_instance(std::vector<Member>& members) {
  if (!fast_paths()) return nullptr;
  std::vector<const EarleyInstance*> candidates;
  for (const Member& member : members) {
    for (const EarleyItem& item : member.items) {
      const EarleyInstance* const other = item.parent->instance;
      if (other == nullptr || candidates.size() == 8) continue;
      if (std::find(candidates.begin(), candidates.end(), other) == candidates.end()) {
        candidates.push_back(other);
      }
    }
  }
  const auto replaced = [&](const Member& member, const EarleyInstance& other) {
    Items items = member.items;
    for (EarleyItem& item : items) {
      for (const Member& each : members) {
        if (item.parent == each.after) item.parent = other.after_rule(each.rule);
      }
    }
    return items;
  };
  for (const EarleyInstance* other : candidates) {
    const bool same = std::all_of(members.begin(), members.end(), [&](const Member& member) {
      return other->after_rule(member.rule) != nullptr;
    });
    if (!same || other->after.size() != members.size()) continue;
    if (std::all_of(members.begin(), members.end(), [&](const Member& member) {
          const EarleySet* const after = other->after_rule(member.rule);
          Items items = replaced(member, *other);
          canonicalise(items);
          return member.completed == after->completed && items.size() == after->items.size() &&
                 std::equal(items.begin(), items.end(), after->items.begin());
        })) {
      return other;
    }
  }
  return nullptr;
}

// What must be imported before a set can be: the sets that its items, or its instance's, wait in.
// Sets without such are made anew from their items.
const EarleySet* EarleyMaker::import_ready(const EarleySet* set, const Imported& imported) {
  if (set->instance != nullptr) {
    std::vector<EarleyInstance::Entry> entries;
    for (const auto& [rule, waiting] : set->instance->entries) {
      entries.push_back({rule, imported.at(waiting)});
    }
    const EarleyInstance* const made = instance(std::move(entries));
    for (const auto& [rule, after] : set->instance->after) {
      if (after == set) return made->after_rule(rule);
    }
  }
  Items items(set->items.begin(), set->items.end());
  for (EarleyItem& item : items) item.parent = imported.at(item.parent);
  return intern(items, set->completed);
}

const EarleySet* EarleyMaker::import(const EarleySet* set, Imported& imported) {
  std::vector<const EarleySet*> pending = {set};
  while (!pending.empty()) {
    const EarleySet* const next = pending.back();
    const size_t before = pending.size();
    const auto need = [&](const EarleySet* other) {
      if (!imported.contains(other)) pending.push_back(other);
    };
    if (imported.contains(next)) {
      pending.pop_back();
      continue;
    }
    if (next->instance != nullptr) {
      for (const auto& entry : next->instance->entries) need(entry.waiting);
    } else {
      for (const EarleyItem& item : next->items) need(item.parent);
    }
    if (pending.size() != before) continue;
    imported.emplace(next, import_ready(next, imported));
    pending.pop_back();
  }
  return imported.at(set);
}

}  // namespace mlx_sampling

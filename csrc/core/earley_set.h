// One set of an Earley parse: all the ways in which what was read so far can go on. Sets are made
// by EarleySets, never changed, and equal ones are one object.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mlx_sampling {

struct EarleySet;
struct EarleyLoops;
struct EarleyInstance;
struct LocalMask;
struct WholeMask;

// A state of a rule's automaton, and the set in which the parse goes on where the rule ends: all
// that waited for it. Of counted rules, the repetitions done before this one may be any of
// `least .. most`; of others both are 0.
struct EarleyItem {
  const EarleySet* parent;
  uint32_t state;
  uint32_t least;
  uint32_t most;
  bool operator==(const EarleyItem&) const = default;
};

// Items of a set that have one parent, as if that were the end of the text.
struct EarleyGroup {
  const EarleySet* local;
  const EarleySet* parent;
};

struct EarleyGroups {
  std::span<const EarleyGroup> all;
};

struct EarleySet {
  // What follows is of the set itself.
  uint32_t id = 0;  // equal sets, equal ids; smaller than those of sets made later
  bool completed = false;
  std::span<const EarleyItem> items;         // ascending by state, parent's id, least
  const EarleyInstance* instance = nullptr;  // that it is a part of; see earley_maker.h

  bool is_dead() const { return items.empty() && !completed; }

  // What follows is found out when it is first asked for; see EarleySets.
  struct Step {
    uint8_t byte_class;
    const EarleySet* next;
  };
  mutable std::atomic<const Step*> only_step = nullptr;
  mutable std::atomic<std::atomic<const EarleySet*>*> steps = nullptr;  // by class of bytes
  mutable std::span<const EarleyItem> expanded;                         // guarded
  mutable bool is_expanded = false;                                     // guarded
  mutable std::atomic<const EarleyGroups*> groups = nullptr;
  mutable std::atomic<const EarleyLoops*> loops = nullptr;
  mutable std::atomic<const LocalMask*> local_mask = nullptr;
  mutable std::atomic<const WholeMask*> whole_mask = nullptr;
  mutable bool is_open = false;  // guarded: has no items yet
  mutable uint32_t stamp = 0;    // guarded
};

}  // namespace mlx_sampling

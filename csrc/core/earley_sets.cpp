#include "core/earley_sets.h"

#include <algorithm>
#include <utility>

#include "core/earley_maker.h"
#include "core/utf8_ranges.h"

namespace mlx_sampling {

EarleySets::EarleySets(std::shared_ptr<const GrammarAutomaton> automaton, size_t longest)
    : automaton_(std::move(automaton)),
      maker_(std::make_unique<EarleyMaker>(*automaton_, longest, memory_)),
      start_(maker_->start()),
      dead_(maker_->dead()) {}

EarleySets::~EarleySets() = default;

const EarleySet* EarleySets::find_step(const EarleySet* set, uint8_t byte_class) const {
  const std::lock_guard lock(mutex_);
  if (const auto* steps = set->steps.load(std::memory_order_relaxed)) {
    if (const EarleySet* next = steps[byte_class].load(std::memory_order_relaxed)) return next;
  }
  const EarleySet* const next = maker_->advance(set, byte_class);
  publish_step(set, byte_class, next);
  return next;
}

// Most sets of a long text are left by one byte only: a table comes with the second.
void EarleySets::publish_step(const EarleySet* set, uint8_t byte_class,
                              const EarleySet* next) const {
  auto* steps = set->steps.load(std::memory_order_relaxed);
  const EarleySet::Step* const only = set->only_step.load(std::memory_order_relaxed);
  if (steps == nullptr && only == nullptr) {
    EarleySet::Step& step = maker_->arena().make<EarleySet::Step>(1)[0];
    step = {byte_class, next};
    set->only_step.store(&step, std::memory_order_release);
    return;
  }
  if (steps != nullptr) {
    steps[byte_class].store(next, std::memory_order_release);
    return;
  }
  steps = maker_->arena().make<std::atomic<const EarleySet*>>(automaton_->classes).data();
  steps[only->byte_class].store(only->next, std::memory_order_relaxed);
  steps[byte_class].store(next, std::memory_order_relaxed);
  set->steps.store(steps, std::memory_order_release);
}

const EarleySet* EarleySets::step_by_token(const EarleySet* set, uint32_t token,
                                           const EarleySet* also) const {
  if (automaton_->token_edges.empty()) return also;
  const std::lock_guard lock(mutex_);
  return maker_->advance_by_token(set, token, also);
}

std::vector<uint32_t> EarleySets::token_sets(const EarleySet* set) const {
  if (automaton_->token_edges.empty()) return {};
  const std::lock_guard lock(mutex_);
  return maker_->token_sets(set);
}

std::span<const EarleyGroup> EarleySets::find_groups(const EarleySet* set) const {
  const std::lock_guard lock(mutex_);
  if (const EarleyGroups* known = set->groups.load(std::memory_order_relaxed)) return known->all;
  EarleyGroups& groups = maker_->arena().make<EarleyGroups>(1)[0];
  groups.all = maker_->make_groups(set);
  set->groups.store(&groups, std::memory_order_release);
  return groups.all;
}

// Whether each of these characters, from its first byte to its last, leads from `set` to itself.
bool EarleySets::characters_lead_back(const EarleySet* set, CharRange range) const {
  std::vector<Utf8Sequence> sequences;
  append_utf8(range, sequences);
  for (const Utf8Sequence& sequence : sequences) {
    std::vector<const EarleySet*> reached = {set};
    for (uint32_t k = 0; k < sequence.size; ++k) {
      const uint8_t first = automaton_->class_of[sequence.bytes[k].first];
      const uint8_t last = automaton_->class_of[sequence.bytes[k].last];
      std::vector<const EarleySet*> next;
      for (const EarleySet* from : reached) {
        for (uint32_t c = first; c <= last; ++c)
          next.push_back(step(from, static_cast<uint8_t>(c)));
      }
      std::sort(next.begin(), next.end());
      next.erase(std::unique(next.begin(), next.end()), next.end());
      if (next.size() > 16) return false;
      reached.swap(next);
    }
    if (reached.size() != 1 || reached[0] != set) return false;
  }
  return true;
}

const ByteSummary& EarleySets::find_loops(const EarleySet* set) const {
  auto loops = std::make_unique<ByteSummary>();
  for (uint32_t byte = 0; byte < 0x80; ++byte) {
    if (step(set, automaton_->class_of[byte]) == set) loops->add(static_cast<uint8_t>(byte));
  }
  loops->wide =
      characters_lead_back(set, {0x80, 0xD7FF}) && characters_lead_back(set, {0xE000, 0x10FFFF});
  const ByteSummary* const kept = keep(std::move(loops));
  set->loops.store(kept, std::memory_order_release);
  return *kept;
}

std::vector<const EarleySet*> EarleySets::import(std::span<const EarleySet* const> sets) const {
  const std::lock_guard lock(mutex_);
  EarleyMaker::Imported imported;
  std::vector<const EarleySet*> result;
  for (const EarleySet* set : sets) result.push_back(maker_->import(set, imported));
  return result;
}

}  // namespace mlx_sampling

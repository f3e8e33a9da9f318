#include "core/chain.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "core/error.h"

namespace mlx_sampling {
namespace {

using Stages = std::vector<std::shared_ptr<const Stage>>;

void expect_no_repeats(const Stages& stages) {
  for (auto stage = stages.begin(); stage != stages.end(); ++stage) {
    const auto same = [&](const auto& other) { return other->name() == (*stage)->name(); };
    if (!(*stage)->once() || std::none_of(stages.begin(), stage, same)) continue;
    refuse("[chain] Expected \"", (*stage)->name(),
           "\" at most once: a request keeps one state for it.");
  }
}

bool is_masked(const Candidate& candidate) {
  return candidate.logit == -std::numeric_limits<float>::infinity();
}

[[noreturn]] void refuse_candidates() {
  throw NonfiniteLogits("[chain] Expected a candidate to pick, but the stages left none.");
}

void apply_rest(const Stages& stages, RequestState& state) {
  for (size_t i = 1; i < stages.size(); ++i) stages[i]->apply(state.candidates, state);
}

// Throws NonfiniteLogits where none is picked, or a mask.
size_t picked_place(const Candidates& candidates) {
  const auto selected = candidates.selected;
  const auto count = static_cast<int64_t>(candidates.data.size());
  // False for NaN too. A stage that picks a mask must not get it past here.
  if (selected < 0 || selected >= count ||
      !(candidates.data[selected].logit > -std::numeric_limits<float>::infinity())) {
    refuse_candidates();
  }
  return static_cast<size_t>(selected);
}

}  // namespace

Chain::Chain(Stages stages) : stages_(std::move(stages)) {
  if (stages_.empty()) refuse("[chain] Expected at least one stage, got none.");
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (!stages_[i]) refuse("[chain] Expected stages, got null.");
    const bool last = i + 1 == stages_.size();
    if (stages_[i]->selects() == last) continue;
    if (last) {
      refuse("[chain] Expected a last stage that selects a token, got \"", stages_[i]->name(),
             "\".");
    }
    refuse("[chain] Expected \"", stages_[i]->name(),
           "\" as the last stage only: it selects a token.");
  }
  expect_no_repeats(stages_);
  const bool sorted = stages_.front()->leaves_sorted();
  may_stay_open_ = std::all_of(stages_.begin() + 1, stages_.end(),
                               [=](const auto& stage) { return stage->keeps_places(sorted); });
}

// Runs on the state; where that fails, it is as before.
template <typename Run>
auto Chain::guarded(RequestState& state, Run&& run) const {
  const Draws before(state);
  state.candidates.open = false;
  state.open_step.reset();
  try {
    return run();
  } catch (const std::invalid_argument&) {
    before.put_back(state);
    // A stage that meets nothing but masks says what it misses itself: a softmax, a weight.
    auto& data = state.candidates.data;
    const bool masked = !data.empty() && std::all_of(data.begin(), data.end(), is_masked);
    state.drop_open_step();
    if (!masked) throw;
    data.clear();  // so that a later error is not taken for this one
    refuse_candidates();
  } catch (...) {
    before.put_back(state);
    state.drop_open_step();
    throw;
  }
}

uint32_t Chain::sample(RequestState& state) const {
  return guarded(state, [&] {
    const Mt19937 distribution = state.streams.distribution;
    const uint32_t token = run(state, distribution);
    if (state.candidates.open) state.open_step.emplace(stages_, distribution);
    return token;
  });
}

void Chain::weigh(RequestState& state) const {
  for (const auto& stage : stages_) {
    if (!stage->draws_first()) continue;
    refuse("[speculative] Expected a chain whose only draw is the token's, got one with ",
           stage->name(), ".");
  }
  guarded(state, [&] { run_and_weigh(state); });
}

void Chain::record_pick(RequestState& state, size_t picked) const {
  stages_.back()->record_pick(state.candidates, picked, state);
  state.candidates.selected = static_cast<int64_t>(picked);
}

void Chain::accept(RequestState& state, uint32_t token) const {
  state.expect_token("accept", token);
  if (state.grammar) state.grammar->accept(token);
  add(state, token);
}

void Chain::accept_prompt(RequestState& state, std::span<const uint32_t> tokens) const {
  for (const uint32_t token : tokens) state.expect_token("accept_prompt", token);
  for (const uint32_t token : tokens) add(state, token);
}

void Chain::add(RequestState& state, uint32_t token) const {
  state.history.accept(token);
  for (const auto& stage : stages_) stage->accept(token, state);
}

void Chain::run_and_weigh(RequestState& state) const {
  Candidates& candidates = state.candidates;
  if (stages_.size() == 1) candidates.fill(state.chain_row());
  for (size_t i = 0; i + 1 < stages_.size(); ++i) {
    if (i == 0) {
      stages_[i]->apply_row(state.chain_row(), candidates, state);
    } else {
      stages_[i]->apply(candidates, state);
    }
  }
  candidates.selected = -1;
  const auto& data = candidates.data;
  if (std::all_of(data.begin(), data.end(), is_masked)) refuse_candidates();
  stages_.back()->weigh(candidates, state);
}

uint32_t Chain::run(RequestState& state, const Mt19937& distribution) const {
  Candidates& candidates = state.candidates;
  candidates.open = false;
  if (may_stay_open_ && !state.is_masked()) {
    candidates.unsure = false;
    stages_.front()->apply_row_open(state.row(), candidates, state);
    apply_rest(stages_, state);
    const size_t place = picked_place(candidates);
    if (!candidates.open) return candidates.data[place].id;
    const uint32_t token = candidates.unsure ? no_token : stages_.front()->id_at(place, state);
    if (token != no_token) return token;
    candidates.open = false;
    state.streams.distribution = distribution;
  }
  stages_.front()->apply_row(state.chain_row(), candidates, state);
  apply_rest(stages_, state);
  return candidates.data[picked_place(candidates)].id;
}

void place_candidates(RequestState& state) {
  Candidates& candidates = state.candidates;
  if (!candidates.open) return;
  const OpenStep step = *std::exchange(state.open_step, std::nullopt);
  const Mt19937 now = std::exchange(state.streams.distribution, step.distribution);
  candidates.open = false;
  try {
    step.stages.front()->apply_row(state.row(), candidates, state);
    apply_rest(step.stages, state);
  } catch (...) {
    candidates.data.clear();
    candidates.selected = -1;
    state.streams.distribution = now;
    throw;
  }
  state.streams.distribution = now;
}

}  // namespace mlx_sampling

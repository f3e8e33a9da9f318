#include "core/chain.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace mlx_sampling {
namespace {

using Stages = std::vector<std::shared_ptr<const Sampler>>;

void expect_no_repeats(const Stages& stages) {
  for (auto stage = stages.begin(); stage != stages.end(); ++stage) {
    const auto same = [&](const auto& other) { return other->name() == (*stage)->name(); };
    if (!(*stage)->once() || std::none_of(stages.begin(), stage, same)) continue;
    std::ostringstream error;
    error << "[chain] Expected \"" << (*stage)->name()
          << "\" at most once: a request keeps one state for it.";
    throw std::invalid_argument(error.str());
  }
}

bool is_masked(const Candidate& candidate) {
  return candidate.logit == -std::numeric_limits<float>::infinity();
}

[[noreturn]] void refuse_candidates() {
  throw NonfiniteLogits("[chain] Expected a candidate to pick, but the stages left none.");
}

}  // namespace

Chain::Chain(Stages stages) : stages_(std::move(stages)) {
  if (stages_.empty())
    throw std::invalid_argument("[chain] Expected at least one stage, got none.");
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (!stages_[i]) throw std::invalid_argument("[chain] Expected stages, got null.");
    const bool last = i + 1 == stages_.size();
    if (stages_[i]->selects() == last) continue;
    std::ostringstream error;
    if (last) {
      error << "[chain] Expected a last stage that selects a token, got \"" << stages_[i]->name()
            << "\".";
    } else {
      error << "[chain] Expected \"" << stages_[i]->name()
            << "\" as the last stage only: it selects a token.";
    }
    throw std::invalid_argument(error.str());
  }
  expect_no_repeats(stages_);
  may_stay_open_ = std::all_of(stages_.begin() + 1, stages_.end(),
                               [](const auto& stage) { return stage->keeps_places_of_sorted(); });
}

uint32_t Chain::sample(RequestState& state) const {
  const Streams streams = state.streams;
  const auto mu = state.mirostat_mu;
  const auto average = state.adaptive_average;
  const auto put_back = [&] {
    state.streams = streams;
    state.mirostat_mu = mu;
    state.adaptive_average = average;
    state.candidates.selected = -1;
  };
  state.open_step.reset();
  try {
    const uint32_t token = run(state);
    if (state.candidates.open) state.open_step.emplace(stages_, streams.distribution);
    return token;
  } catch (const std::invalid_argument&) {
    put_back();
    // A stage that meets nothing but masks says what it misses itself: a softmax, a weight.
    auto& data = state.candidates.data;
    const bool masked = !data.empty() && std::all_of(data.begin(), data.end(), is_masked);
    state.drop_open_step();
    if (!masked) throw;
    data.clear();  // so that a later error is not taken for this one
    refuse_candidates();
  } catch (...) {
    put_back();
    state.drop_open_step();
    throw;
  }
}

void Chain::accept(RequestState& state, std::span<const uint32_t> tokens) const {
  for (const uint32_t token : tokens) state.expect_token("accept", token);
  for (const uint32_t token : tokens) {
    state.history.accept(token);
    for (const auto& stage : stages_) stage->accept(token, state);
  }
}

uint32_t Chain::run(RequestState& state) const {
  Candidates& candidates = state.candidates;
  candidates.open = false;
  if (may_stay_open_) {
    stages_.front()->apply_row_open(state.row(), candidates, state);
  } else {
    stages_.front()->apply_row(state.row(), candidates, state);
  }
  for (size_t i = 1; i < stages_.size(); ++i) stages_[i]->apply(candidates, state);

  const auto selected = candidates.selected;
  const auto count = static_cast<int64_t>(candidates.data.size());
  // False for NaN too. A stage that picks a mask must not get it past here.
  if (selected < 0 || selected >= count ||
      !(candidates.data[selected].logit > -std::numeric_limits<float>::infinity())) {
    refuse_candidates();
  }
  if (candidates.open) return stages_.front()->id_at(static_cast<size_t>(selected), state);
  return candidates.data[selected].id;
}

void settle(RequestState& state) {
  Candidates& candidates = state.candidates;
  if (!candidates.open) return;
  const OpenStep step = *std::exchange(state.open_step, std::nullopt);
  const Mt19937 now = std::exchange(state.streams.distribution, step.distribution);
  candidates.open = false;
  try {
    step.stages.front()->apply_row(state.row(), candidates, state);
    for (size_t i = 1; i < step.stages.size(); ++i) step.stages[i]->apply(candidates, state);
  } catch (...) {
    candidates.data.clear();
    candidates.selected = -1;
    state.streams.distribution = now;
    throw;
  }
  state.streams.distribution = now;
}

}  // namespace mlx_sampling

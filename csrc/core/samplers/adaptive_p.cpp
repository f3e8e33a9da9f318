#include "core/samplers/adaptive_p.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/candidate_probs.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {
namespace {

// The new logit is `peak` at the target; it falls as a parabola near it, and far from it as a line
// of slope `sharpness` per `width`.
constexpr float width = 0.3f;
constexpr float per_width = 1.0f / width;
constexpr float peak = 5.0f;
constexpr float sharpness = 10.0f;

float logit_near(float target, float p) {
  const float distance = std::abs((p - target) * per_width);
  return peak - sharpness * distance * distance / (1.0f + distance);
}

}  // namespace

AdaptiveP::AdaptiveP(double target, double decay)
    : target_(finite_float("adaptive_p", "target", target)),
      decay_(std::clamp(finite_float("adaptive_p", "decay", decay), 0.0f, 0.99f)) {}

// As if every token so far had been on target.
AdaptiveAverage AdaptiveP::start() const {
  return {.weighted_sum = target_ / (1.0f - decay_), .total_weight = 1.0f / (1.0f - decay_)};
}

float AdaptiveP::corrected_target(const AdaptiveAverage& average) const {
  const float target = std::clamp(target_, 0.0f, 1.0f);
  return std::clamp(2.0f * target - (average.weighted_sum / average.total_weight), 0.0f, 1.0f);
}

void AdaptiveP::apply(Candidates& candidates, RequestState& state) const {
  weigh(candidates, state);
  const size_t picked = pick_by_p(candidates, state.streams.adaptive, state.reference(), name());
  candidates.selected = static_cast<int64_t>(picked);
  record_pick(candidates, picked, state);
}

void AdaptiveP::weigh(Candidates& candidates, RequestState& state) const {
  softmax(candidates, name());
  if (target_ < 0) return;
  const float target = corrected_target(state.adaptive_average.value_or(start()));
  auto& original = state.probs_before_adaptive;
  original.clear();
  for (Candidate& candidate : candidates.data) {
    original.push_back(candidate.p);
    if (candidate.logit == -std::numeric_limits<float>::infinity()) continue;
    candidate.logit = logit_near(target, candidate.p);
  }
  softmax(candidates, name());
}

void AdaptiveP::record_pick(const Candidates& candidates, size_t picked,
                            RequestState& state) const {
  if (target_ < 0) return;
  AdaptiveAverage average = state.adaptive_average.value_or(start());
  average.pending_token = candidates.data[picked].id;
  average.pending_p = state.probs_before_adaptive[picked];
  state.adaptive_average = average;
}

void AdaptiveP::accept(uint32_t token, RequestState& state) const {
  if (!state.adaptive_average) return;
  AdaptiveAverage& average = *state.adaptive_average;
  if (average.pending_token == token) {
    average.weighted_sum = average.pending_p + decay_ * average.weighted_sum;
    average.total_weight = 1.0f + decay_ * average.total_weight;
  }
  average.pending_token.reset();
  average.pending_p = 0;
}

}  // namespace mlx_sampling

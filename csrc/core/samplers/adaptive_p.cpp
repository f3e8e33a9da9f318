#include "core/samplers/adaptive_p.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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
  auto& data = candidates.data;
  Mt19937& stream = state.streams.adaptive;
  softmax(candidates, name());
  if (target_ < 0) {
    const size_t picked = pick_by_p(candidates, stream, state.reference(), name());
    candidates.selected = static_cast<int64_t>(picked);
    return;
  }

  AdaptiveAverage average = state.adaptive_average.value_or(start());
  const float target = corrected_target(average);
  std::vector<float> original;
  original.reserve(data.size());
  for (Candidate& candidate : data) {
    original.push_back(candidate.p);
    if (candidate.logit == -std::numeric_limits<float>::infinity()) continue;
    candidate.logit = logit_near(target, candidate.p);
  }
  softmax(candidates, name());
  const size_t picked = pick_by_p(candidates, stream, state.reference(), name());
  candidates.selected = static_cast<int64_t>(picked);
  average.pending_token = data[picked].id;
  average.pending_p = original[picked];
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

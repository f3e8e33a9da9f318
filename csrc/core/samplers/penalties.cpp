#include "core/samplers/penalties.h"

#include "core/error.h"
#include "core/listed_candidates.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {
namespace {

float checked_repeat(double repeat) {
  const float value = finite_float("penalties", "repeat", repeat);
  if (value > 0) return value;
  refuse("[penalties] Expected a repeat > 0, got ", repeat, ".");
}

}  // namespace

Penalties::Penalties(const PenaltyOptions& options)
    : window_(options.last_n > 0 ? static_cast<size_t>(options.last_n) : 0),
      repeat_(checked_repeat(options.repeat)),
      freq_(finite_float("penalties", "freq", options.freq)),
      present_(finite_float("penalties", "present", options.present)) {
  if (repeat_ == 1 && freq_ == 0 && present_ == 0) window_ = 0;
}

void Penalties::apply(Candidates& candidates, RequestState& state) const {
  if (window_ == 0) return;
  const auto penalise = [this](Candidate& candidate, int32_t count) {
    if (candidate.logit <= 0) {
      candidate.logit *= repeat_;
    } else {
      candidate.logit /= repeat_;
    }
    // In this shape although the second factor is 1: where the compiler fuses, it decides which of
    // the two products is rounded.
    candidate.logit -= static_cast<float>(count) * freq_ + static_cast<float>(count > 0) * present_;
  };
  for_each_listed(candidates, state.history.counts(window_), penalise);
  candidates.sorted = false;
}

}  // namespace mlx_sampling

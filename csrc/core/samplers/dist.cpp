#include "core/samplers/dist.h"

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "core/candidate_probs.h"

namespace mlx_sampling {

void Dist::apply(Candidates& candidates, RequestState& state) const {
  auto& data = candidates.data;
  candidates.selected = -1;
  if (data.empty()) return;
  Mt19937& stream = state.streams.distribution;
  if (data.size() == 1) {
    stream.uniform_f64(state.reference());
    data[0].p = 1.0f;
    candidates.selected = 0;
    return;
  }

  const float greatest = greatest_logit(candidates);
  double sum = 0;
  for (Candidate& candidate : data) {
    candidate.p = std::exp(candidate.logit - greatest);
    sum += candidate.p;
  }
  if (!(sum > 0 && std::isfinite(sum))) {
    std::ostringstream error;
    error << "[dist] Expected logits with a finite softmax, got a sum of " << sum
          << " (a temperature near 0 can overflow them).";
    throw std::invalid_argument(error.str());
  }

  const double target = sum * stream.uniform_f64(state.reference());
  double running = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    if (candidates.selected < 0) {
      running += data[i].p;
      // A uniform of exactly 0 would else fall on a mask that stands first.
      const bool masked = data[i].logit == -std::numeric_limits<float>::infinity();
      if (running >= target && !masked) candidates.selected = static_cast<int64_t>(i);
    }
    data[i].p = static_cast<float>(data[i].p / sum);
  }
}

}  // namespace mlx_sampling

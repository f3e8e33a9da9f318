#include "core/samplers/xtc.h"

#include "core/candidate_probs.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {

Xtc::Xtc(double probability, double threshold, int64_t min_keep)
    : probability_(finite_float("xtc", "probability", probability)),
      threshold_(finite_float("xtc", "threshold", threshold)),
      min_keep_(count_to_keep("xtc", min_keep)) {}

void Xtc::apply(Candidates& candidates, RequestState& state) const {
  auto& data = candidates.data;
  if (probability_ <= 0.0f || threshold_ > 0.5f || data.size() < 2) return;
  if (state.streams.xtc.uniform_f32(state.reference()) > probability_) return;
  sorted_softmax(candidates, state.reference(), name());
  size_t leading = 0;
  while (leading < data.size() && data[leading].p >= threshold_) ++leading;
  if (leading < 2 || data.size() - (leading - 1) < min_keep_) return;
  data.erase(data.begin(), data.begin() + static_cast<ptrdiff_t>(leading - 1));
}

}  // namespace mlx_sampling

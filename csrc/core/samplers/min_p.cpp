#include "core/samplers/min_p.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/candidate_order.h"
#include "core/fast_paths.h"
#include "core/row_scan.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {

MinP::MinP(double p, int64_t min_keep)
    : p_(finite_float("min_p", "p", p)), min_keep_(count_to_keep("min_p", min_keep)) {}

// False, with nothing changed, where too few pass.
bool MinP::keep_passing(Candidates& candidates) const {
  auto& data = candidates.data;
  float greatest = -std::numeric_limits<float>::max();
  for (const Candidate& candidate : data) greatest = std::max(greatest, candidate.logit);
  const float least = greatest + std::log(p_);
  const auto passes = [&](const Candidate& candidate) { return candidate.logit >= least; };
  const auto count = static_cast<size_t>(std::count_if(data.begin(), data.end(), passes));
  if (count == 0 || count < min_keep_) return false;
  std::erase_if(data, [&](const Candidate& candidate) { return !passes(candidate); });
  return true;
}

void MinP::keep_passing_of_sorted(Candidates& candidates) const {
  auto& data = candidates.data;
  const float least = data[0].logit + std::log(p_);
  size_t count = 1;
  while (count < data.size() && !(data[count].logit < least && count >= min_keep_)) ++count;
  data.resize(count);
}

void MinP::apply(Candidates& candidates, RequestState& state) const {
  if (p_ <= 0.0f || candidates.data.empty()) return;
  if (!candidates.sorted && keep_passing(candidates)) return;
  sort_candidates(candidates, state.reference());
  keep_passing_of_sorted(candidates);
}

// The greatest logit is known, so that the threshold is: only what passes becomes a candidate.
void MinP::apply_row(std::span<const float> row, Candidates& candidates,
                     RequestState& state) const {
  if (p_ > 0.0f && fast_paths()) {
    const float greatest =
        std::max(-std::numeric_limits<float>::max(), state.row_index().greatest_of_all());
    all_from(row, state.row_index(), greatest + std::log(p_), candidates.data);
    if (!candidates.data.empty() && candidates.data.size() >= min_keep_) {
      candidates.selected = -1;
      candidates.sorted = false;
      return;
    }
  }
  Stage::apply_row(row, candidates, state);
}

}  // namespace mlx_sampling

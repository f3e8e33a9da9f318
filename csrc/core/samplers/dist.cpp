#include "core/samplers/dist.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/candidate_probs.h"
#include "core/error.h"

namespace mlx_sampling {
namespace {

void expect_finite(double sum) {
  if (sum > 0 && std::isfinite(sum)) return;
  refuse("[dist] Expected logits with a finite softmax, got a sum of ", sum,
         " (a temperature near 0 can overflow them).");
}

void divide_by(double sum, Candidates& candidates) {
  for (Candidate& candidate : candidates.data) candidate.p = static_cast<float>(candidate.p / sum);
}

}  // namespace

void Dist::weigh(Candidates& candidates, RequestState&) const {
  candidates.selected = -1;
  if (candidates.data.empty()) return;
  const auto sum = write_exps<double>(candidates, greatest_logit(candidates));
  expect_finite(sum);
  divide_by(sum, candidates);
}

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

  std::vector<double> ends;  // of the running sum, by chunk
  const auto sum = write_exps<double>(candidates, greatest_logit(candidates), &ends);
  expect_finite(sum);

  const double target = sum * stream.uniform_f64(state.reference());
  const auto chunk = static_cast<size_t>(
      std::find_if(ends.begin(), ends.end(), [=](double end) { return end >= target; }) -
      ends.begin());
  double running = chunk == 0 ? 0.0 : ends[chunk - 1];
  for (size_t i = chunk * exp_chunk; i < data.size() && candidates.selected < 0; ++i) {
    running += data[i].p;
    // A uniform of exactly 0 would else fall on a mask that stands first.
    const bool masked = data[i].logit == -std::numeric_limits<float>::infinity();
    if (running >= target && !masked) candidates.selected = static_cast<int64_t>(i);
  }
  // Other orders of tied candidates round otherwise, by less than that.
  if (candidates.open && candidates.selected >= 0) {
    const double error =
        4.0 * static_cast<double>(data.size()) * std::numeric_limits<double>::epsilon() * sum;
    const double before = running - data[static_cast<size_t>(candidates.selected)].p;
    candidates.unsure = !(running - target > error && target - before > error);
  }
  divide_by(sum, candidates);
}

}  // namespace mlx_sampling

#include "core/samplers/top_n_sigma.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/samplers/parameters.h"

namespace mlx_sampling {
namespace {

constexpr float mask = -std::numeric_limits<float>::infinity();

}  // namespace

TopNSigma::TopNSigma(double n) : n_(finite_float("top_n_sigma", "n", n)) {}

void TopNSigma::apply(Candidates& candidates, RequestState&) const {
  auto& data = candidates.data;
  if (n_ <= 0.0f || data.size() <= 1) return;
  float greatest = data[0].logit;
  float sum = 0;
  size_t count = 0;
  for (const Candidate& candidate : data) {
    if (candidate.logit == mask) continue;
    greatest = std::max(greatest, candidate.logit);
    sum += candidate.logit;
    ++count;
  }
  const float mean = count > 0 ? sum / static_cast<float>(count) : 0.0f;

  // Each square is a double, the sum is rounded to float every time.
  float squares = 0;
  for (const Candidate& candidate : data) {
    if (candidate.logit == mask) continue;
    const double distance = candidate.logit - mean;
    squares = static_cast<float>(squares + distance * distance);
  }
  const float deviation = count > 0 ? std::sqrt(squares / static_cast<float>(count)) : 0.0f;

  for (Candidate& candidate : data) {
    if (candidate.logit < greatest - (n_ * deviation)) candidate.logit = mask;
  }
}

}  // namespace mlx_sampling

#include "core/samplers/dynamic_temperature.h"

#include <algorithm>
#include <cmath>

#include "core/candidate_probs.h"
#include "core/samplers/parameters.h"
#include "core/samplers/temperature.h"

namespace mlx_sampling {
namespace {

// Over that of equal candidates; a candidate of probability 0 counts for nothing.
float normalized_entropy(const std::vector<Candidate>& data) {
  const float greatest = -std::log(1.0f / static_cast<float>(data.size()));
  float entropy = 0;
  for (const Candidate& candidate : data) {
    if (candidate.p > 0) entropy -= candidate.p * std::log(candidate.p);
  }
  return entropy / greatest;
}

// The softmax in double, as llama.cpp has it here and nowhere else.
void softmax_in_double(std::vector<Candidate>& data) {
  const double greatest = data[0].logit;
  double sum = 0;
  for (Candidate& candidate : data) {
    const double p = std::exp(candidate.logit - greatest);
    candidate.p = static_cast<float>(p);
    sum += p;
  }
  for (Candidate& candidate : data) candidate.p = static_cast<float>(candidate.p / sum);
}

}  // namespace

DynamicTemperature::DynamicTemperature(double temperature, double range, double exponent)
    : temperature_(finite_temperature("dynamic_temperature", temperature)),
      range_(finite_float("dynamic_temperature", "range", range)),
      exponent_(finite_float("dynamic_temperature", "exponent", exponent)) {}

void DynamicTemperature::apply(Candidates& candidates, RequestState& state) const {
  if (!(range_ > 0)) {
    divide_logits(candidates, temperature_);
    return;
  }
  if (candidates.data.size() <= 1) return;
  const float least = std::max(0.0f, temperature_ - range_);
  const float greatest = temperature_ + range_;
  sorted_softmax(candidates, state.reference(), name());
  const float entropy = normalized_entropy(candidates.data);
  divide_logits(candidates, least + (greatest - least) * std::pow(entropy, exponent_));
  softmax_in_double(candidates.data);
}

}  // namespace mlx_sampling

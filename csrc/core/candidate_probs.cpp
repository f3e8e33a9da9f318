#include "core/candidate_probs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/candidate_order.h"

namespace mlx_sampling {
namespace {

[[noreturn]] void refuse(std::string_view stage, std::string_view reason) {
  throw std::invalid_argument("[" + std::string(stage) + "] " + std::string(reason));
}

void expect_candidates(const Candidates& candidates, std::string_view stage) {
  if (candidates.data.empty()) refuse(stage, "Expected at least one candidate, got none.");
}

bool is_mask(const Candidate& candidate) {
  return candidate.logit == -std::numeric_limits<float>::infinity();
}

}  // namespace

float greatest_logit(const Candidates& candidates) {
  float greatest = candidates.data.front().logit;
  if (!candidates.sorted) {
    for (const Candidate& candidate : candidates.data) {
      greatest = std::max(greatest, candidate.logit);
    }
  }
  return greatest;
}

void softmax(Candidates& candidates, std::string_view stage) {
  expect_candidates(candidates, stage);
  const float greatest = greatest_logit(candidates);
  float sum = 0;
  for (Candidate& candidate : candidates.data) {
    candidate.p = std::exp(candidate.logit - greatest);
    sum += candidate.p;
  }
  for (Candidate& candidate : candidates.data) candidate.p /= sum;
}

void sorted_softmax(Candidates& candidates, Reference reference, std::string_view stage) {
  expect_candidates(candidates, stage);
  sort_candidates(candidates, reference);
  softmax(candidates, stage);
}

size_t pick_by_p(const Candidates& candidates, Mt19937& stream, Reference reference,
                 std::string_view stage) {
  const auto& data = candidates.data;
  std::vector<double> weights;
  weights.reserve(data.size());
  for (const Candidate& candidate : data) {
    if (!std::isfinite(candidate.p)) {
      refuse(stage,
             "Expected logits with a finite softmax (a temperature near 0 can overflow them).");
    }
    weights.push_back(candidate.p);
  }
  size_t picked = stream.discrete(weights, reference);
  // A mask has the weight 0: the uniform was 0 and masks stand first, or near 1 and they stand
  // last.
  while (is_mask(data[picked]) && picked + 1 < data.size()) ++picked;
  while (is_mask(data[picked]) && picked > 0) --picked;
  return picked;
}

}  // namespace mlx_sampling

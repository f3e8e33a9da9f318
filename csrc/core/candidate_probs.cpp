#include "core/candidate_probs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "core/candidate_order.h"
#include "core/exp_floats.h"
#include "core/ordered_sum.h"

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
  const auto& data = candidates.data;
  const float front = data.front().logit;
  if (candidates.sorted) return front;
  // Several at a time: one alone would wait for each comparison.
  std::array<float, 8> greatest;
  greatest.fill(front);
  size_t i = 0;
  for (; i + greatest.size() <= data.size(); i += greatest.size()) {
    for (size_t lane = 0; lane < greatest.size(); ++lane) {
      greatest[lane] = std::max(greatest[lane], data[i + lane].logit);
    }
  }
  for (; i < data.size(); ++i) greatest[0] = std::max(greatest[0], data[i].logit);
  return *std::max_element(greatest.begin(), greatest.end());
}

template <typename Sum>
Sum write_exps(Candidates& candidates, float greatest, std::vector<Sum>* ends) {
  auto& data = candidates.data;
  std::array<float, exp_chunk> below;
  std::array<float, exp_chunk> exps;
  Sum sum = 0;
  for (size_t begin = 0; begin < data.size(); begin += exp_chunk) {
    const size_t count = std::min(exp_chunk, data.size() - begin);
    for (size_t i = 0; i < count; ++i) below[i] = data[begin + i].logit - greatest;
    exp_floats(below.data(), count, exps.data());
    if constexpr (std::is_same_v<Sum, float>) {
      sum = add_in_order(sum, exps.data(), count);
    } else {
      for (size_t i = 0; i < count; ++i) sum += exps[i];
    }
    for (size_t i = 0; i < count; ++i) data[begin + i].p = exps[i];
    if (ends != nullptr) ends->push_back(sum);
  }
  return sum;
}

template float write_exps(Candidates&, float, std::vector<float>*);
template double write_exps(Candidates&, float, std::vector<double>*);

void softmax(Candidates& candidates, std::string_view stage) {
  expect_candidates(candidates, stage);
  const auto sum = write_exps<float>(candidates, greatest_logit(candidates));
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

#include "core/samplers/typical_p.h"

#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "core/candidate_probs.h"
#include "core/reference_order.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {
namespace {

// Distance of each candidate's surprise from the entropy.
std::vector<float> atypicality(const std::vector<Candidate>& data) {
  float entropy = 0;
  for (const Candidate& candidate : data) entropy += -candidate.p * std::log(candidate.p);
  std::vector<float> distances;
  distances.reserve(data.size());
  for (const Candidate& candidate : data) {
    distances.push_back(std::abs(-std::log(candidate.p) - entropy));
  }
  return distances;
}

}  // namespace

TypicalP::TypicalP(double p, int64_t min_keep)
    : p_(finite_float("typical_p", "p", p)), min_keep_(count_to_keep("typical_p", min_keep)) {}

void TypicalP::apply(Candidates& candidates, RequestState& state) const {
  if (p_ >= 1.0f) return;
  sorted_softmax(candidates, state.reference(), name());
  const auto distances = atypicality(candidates.data);

  // Elements of size_t: the libraries may have another order for another kind.
  std::vector<size_t> order(distances.size());
  std::iota(order.begin(), order.end(), size_t{0});
  reference_sort(state.reference(), std::span<size_t>(order),
                 [&](size_t a, size_t b) { return distances[a] < distances[b]; });

  std::vector<Candidate> kept;
  float sum = 0;
  for (size_t index : order) {
    kept.push_back(candidates.data[index]);
    sum += kept.back().p;
    if (sum > p_ && kept.size() >= min_keep_) break;
  }
  candidates.data.assign(kept.begin(), kept.end());
  candidates.sorted = false;
}

}  // namespace mlx_sampling

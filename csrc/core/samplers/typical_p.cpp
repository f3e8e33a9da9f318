#include "core/samplers/typical_p.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "core/candidate_probs.h"
#include "core/fast_paths.h"
#include "core/keyed.h"
#include "core/reference_order.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {
namespace {

// Distance of each candidate's surprise from the entropy. Equal neighbours share a logarithm.
std::vector<float> atypicality(const std::vector<Candidate>& data) {
  std::vector<float> logs;
  logs.reserve(data.size());
  float entropy = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    const float p = data[i].p;
    logs.push_back(i > 0 && p == data[i - 1].p ? logs.back() : std::log(p));
    entropy += -p * logs.back();
  }
  for (float& log : logs) log = std::abs(-log - entropy);
  return logs;
}

// Calls `take(index)` by rising distance, in the order of the library's sort of all indices, until
// it is false; sorts no further.
template <typename Take>
void take_most_typical(const std::vector<float>& distances, Reference reference, Take&& take) {
  const bool ordered = std::none_of(distances.begin(), distances.end(),
                                    [](float distance) { return std::isnan(distance); });
  if (ordered && fast_paths()) {
    std::vector<KeyedInteger> order(distances.size());
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = {{rising_key(distances[i]), static_cast<uint32_t>(i)}};
    }
    size_t taken = 0;
    bool more = true;
    const auto take_up_to = [&](size_t end) {
      for (; more && taken < end; ++taken) more = take(order[taken].id);
      return more;
    };
    reference_sort_keyed(reference, std::span(order), [&](const KeyedInteger* first) {
      return take_up_to(static_cast<size_t>(first - order.data()));
    });
    take_up_to(order.size());
    return;
  }
  // Elements of size_t: the libraries may have another order for another kind.
  std::vector<size_t> order(distances.size());
  std::iota(order.begin(), order.end(), size_t{0});
  reference_sort(reference, std::span<size_t>(order),
                 [&](size_t a, size_t b) { return distances[a] < distances[b]; });
  for (auto index = order.begin(); index != order.end() && take(*index);) ++index;
}

}  // namespace

TypicalP::TypicalP(double p, int64_t min_keep)
    : p_(finite_float("typical_p", "p", p)), min_keep_(count_to_keep("typical_p", min_keep)) {}

void TypicalP::apply(Candidates& candidates, RequestState& state) const {
  if (p_ >= 1.0f) return;
  sorted_softmax(candidates, state.reference(), name());
  const auto distances = atypicality(candidates.data);

  std::vector<Candidate> kept;
  float sum = 0;
  take_most_typical(distances, state.reference(), [&](size_t index) {
    kept.push_back(candidates.data[index]);
    sum += kept.back().p;
    return !(sum > p_ && kept.size() >= min_keep_);
  });
  candidates.data.assign(kept.begin(), kept.end());
  candidates.sorted = false;
}

}  // namespace mlx_sampling

#include "core/samplers/typical_p.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "core/bucket_order.h"
#include "core/candidate_order.h"
#include "core/candidate_probs.h"
#include "core/exp_floats.h"
#include "core/keyed.h"
#include "core/ordered_sum.h"
#include "core/radix_sort.h"
#include "core/reference_order.h"
#include "core/samplers/parameters.h"
#include "core/sort_scratch.h"

namespace mlx_sampling {
namespace {

// Distance of each probability's surprise from the entropy. Equal neighbours share a logarithm.
void find_distances(std::span<const float> probs, std::vector<float>& logs) {
  logs.resize(probs.size());
  float entropy = 0;
  for (size_t i = 0; i < probs.size(); ++i) {
    logs[i] = i > 0 && probs[i] == probs[i - 1] ? logs[i - 1] : std::log(probs[i]);
    entropy += -probs[i] * logs[i];
  }
  for (float& log : logs) log = std::abs(-log - entropy);
}

// Calls `take(index)` by rising distance, in the order of the library's sort of all indices, until
// it is false. False, with nothing called, where there are NaNs.
template <typename Take>
bool take_lazily(const std::vector<float>& distances, Reference reference, Take&& take) {
  std::vector<KeyedInteger>& order = sort_scratch().order;
  order.resize(distances.size());
  bool ordered = true;
  for (size_t i = 0; i < order.size(); ++i) {
    ordered &= !std::isnan(distances[i]);
    order[i] = {{rising_key(distances[i]), static_cast<uint32_t>(i)}};
  }
  if (!ordered) return false;
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
  return true;
}

// The probabilities of all candidates by falling logit.
std::span<const float> probs_in_order(std::span<const Keyed> ranked, float greatest) {
  std::vector<float>& probs = sort_scratch().below;
  std::vector<float>& exps = sort_scratch().exps;
  probs.resize(ranked.size());
  exps.resize(ranked.size());
  for (size_t i = 0; i < ranked.size(); ++i) probs[i] = logit_of(ranked[i]) - greatest;
  exp_floats(probs.data(), probs.size(), exps.data());
  const float sum = add_in_order(0.0f, exps.data(), exps.size());
  for (size_t i = 0; i < ranked.size(); ++i) probs[i] = exps[i] / sum;
  return probs;
}

}  // namespace

TypicalP::TypicalP(double p, int64_t min_keep)
    : p_(finite_float("typical_p", "p", p)), min_keep_(count_to_keep("typical_p", min_keep)) {}

// Why it is exact: probabilities and distances are the same whichever of several equal logits
// stands first, and so is what the library's sort of the distances does. Only which candidate has a
// rank depends on that, and is looked up in the library's own order for those that are kept.
bool TypicalP::keep_lazily(std::span<const float> logits, const uint32_t* ids,
                           Candidates& candidates, Reference reference) const {
  BucketOrder order(logits, ids, reference);
  if (!order.usable()) return false;
  std::vector<Keyed>& ranked = sort_scratch().ranked;
  std::vector<Keyed>& scratch = sort_scratch().radix;
  ranked.assign(order.elements().begin(), order.elements().end());
  scratch.resize(ranked.size());
  for (size_t b = 0; b < order.bucket_count(); ++b) {
    const auto elements = std::span(ranked).subspan(order.begin(b), order.bucket(b).size());
    sort_by_key(elements, {scratch.data(), elements.size()});
  }
  const std::span<const float> probs = probs_in_order(ranked, order.greatest());
  std::vector<float>& distances = sort_scratch().distances;
  find_distances(probs, distances);

  std::vector<size_t> kept;
  float sum = 0;
  const bool done = take_lazily(distances, reference, [&](size_t rank) {
    kept.push_back(rank);
    sum += probs[rank];
    return !(sum > p_ && kept.size() >= min_keep_);
  });
  if (!done) return false;

  candidates.data.clear();
  for (const size_t rank : kept) {
    const int32_t key = ranked[rank].key;
    const bool tied = (rank > 0 && ranked[rank - 1].key == key) ||
                      (rank + 1 < ranked.size() && ranked[rank + 1].key == key);
    const Keyed element = tied ? order.at_rank(rank) : ranked[rank];
    candidates.data.push_back(order.candidate(element));
    candidates.data.back().p = probs[rank];
  }
  return true;
}

void TypicalP::apply_row(std::span<const float> row, Candidates& candidates,
                         RequestState& state) const {
  if (p_ < 1.0f && BucketOrder::worth_while_for(row.size()) &&
      keep_lazily(row, nullptr, candidates, state.reference())) {
    candidates.selected = -1;
    candidates.sorted = false;
    return;
  }
  Stage::apply_row(row, candidates, state);
}

void TypicalP::apply_row_open(std::span<const float> row, Candidates& candidates,
                              RequestState& state) const {
  if (p_ < 1.0f && BucketOrder::worth_while_for(row.size()) &&
      keep_open(row, state.row_index(), candidates)) {
    candidates.selected = -1;
    candidates.sorted = false;
    candidates.open = true;
    return;
  }
  apply_row(row, candidates, state);
}

void TypicalP::apply(Candidates& candidates, RequestState& state) const {
  if (p_ >= 1.0f) return;
  if (!candidates.sorted && BucketOrder::worth_while_for(candidates.data.size())) {
    const LogitsAndIds columns = logits_and_ids(candidates);
    if (keep_lazily(columns.logits, columns.ids, candidates, state.reference())) return;
  }
  sorted_softmax(candidates, state.reference(), name());
  std::vector<float> probs;
  for (const Candidate& candidate : candidates.data) probs.push_back(candidate.p);
  std::vector<float> distances;
  find_distances(probs, distances);

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

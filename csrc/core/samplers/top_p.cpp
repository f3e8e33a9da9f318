#include "core/samplers/top_p.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/bucket_order.h"
#include "core/candidate_order.h"
#include "core/candidate_probs.h"
#include "core/exp_floats.h"
#include "core/ordered_sum.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {
namespace {

// More candidates than `many` are sorted as far as `first_look` at first, which is mostly enough.
// It is also seen in the result: equal logits have another order than after a whole sort.
constexpr size_t many = 1024;
constexpr size_t first_look = 256;

// What the softmax divides by: a float sum in the order of the logits.
float sum_of_exps(std::span<const float> logits, float greatest) {
  std::array<float, 1024> below;
  std::array<float, 1024> exps;
  float sum = 0;
  for (size_t begin = 0; begin < logits.size(); begin += below.size()) {
    const size_t count = std::min(below.size(), logits.size() - begin);
    for (size_t i = 0; i < count; ++i) below[i] = logits[begin + i] - greatest;
    exp_floats(below.data(), count, exps.data());
    sum = add_in_order(sum, exps.data(), count);
  }
  return sum;
}

}  // namespace

TopP::TopP(double p, int64_t min_keep)
    : p_(finite_float("top_p", "p", p)), min_keep_(count_to_keep("top_p", min_keep)) {}

// How many of the sorted candidates are kept; one more than there are where the sum stays short.
size_t TopP::kept(const std::vector<Candidate>& greatest) const {
  float sum = 0;
  for (size_t i = 0; i < greatest.size(); ++i) {
    sum += greatest[i].p;
    if (sum >= p_ && i + 1 >= min_keep_) return i + 1;
  }
  return greatest.size() + 1;
}

// The same without p for what is dropped, sorting no more than is kept. False, with nothing
// changed, where that cannot be done.
bool TopP::keep_lazily(std::span<const float> logits, const uint32_t* ids, Candidates& candidates,
                       Reference reference) const {
  static_assert(BucketOrder::few >= many);
  BucketOrder order(logits, ids, reference);
  if (!order.usable()) return false;
  const float greatest = order.greatest();
  const float exps_sum = sum_of_exps(logits, greatest);
  std::vector<Candidate> found;
  float sum = 0;
  // Whether the sum is reached, with as many found as are kept.
  const auto take = [&](std::span<const Keyed> elements) {
    for (const Keyed& element : elements) {
      found.push_back(order.candidate(element));
      found.back().p = std::exp(found.back().logit - greatest) / exps_sum;
      sum += found.back().p;
      if (sum >= p_ && found.size() >= min_keep_) return true;
    }
    return false;
  };
  if (!take(order.first(first_look))) {
    found.clear();
    sum = 0;
    for (size_t b = 0; b < order.bucket_count() && !take(order.sorted(b));) ++b;
  }
  candidates.data.swap(found);
  candidates.sorted = true;
  return true;
}

void TopP::apply_row(std::span<const float> row, Candidates& candidates,
                     RequestState& state) const {
  if (p_ < 1.0f && BucketOrder::worth_while_for(row.size()) &&
      keep_lazily(row, nullptr, candidates, state.reference())) {
    candidates.selected = -1;
    return;
  }
  Sampler::apply_row(row, candidates, state);
}

void TopP::apply(Candidates& candidates, RequestState& state) const {
  if (p_ >= 1.0f) return;
  if (!candidates.sorted && BucketOrder::worth_while_for(candidates.data.size())) {
    const LogitsAndIds columns = logits_and_ids(candidates);
    if (keep_lazily(columns.logits, columns.ids, candidates, state.reference())) return;
  }
  softmax(candidates, name());
  auto& data = candidates.data;
  if (!candidates.sorted && data.size() > many) {
    const auto first = greatest_by_buckets(candidates, first_look, state.reference());
    const size_t count = kept(first);
    if (count <= first.size()) {
      data.assign(first.begin(), first.begin() + static_cast<ptrdiff_t>(count));
      candidates.sorted = true;
      return;
    }
  }
  sort_candidates(candidates, state.reference());
  const size_t count = kept(data);
  if (count < data.size()) data.resize(count);
}

}  // namespace mlx_sampling

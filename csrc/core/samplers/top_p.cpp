#include "core/samplers/top_p.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/bucket_order.h"
#include "core/candidate_order.h"
#include "core/candidate_probs.h"
#include "core/exp_floats.h"
#include "core/ordered_sum.h"
#include "core/radix_sort.h"
#include "core/row_front.h"
#include "core/samplers/parameters.h"
#include "core/sort_scratch.h"

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

// Keeps elements by rising key until enough are kept; false where there are too few.
bool TopP::take_ranked(std::span<const Keyed> ranked, float greatest, float exps_sum,
                       std::vector<Candidate>& kept) const {
  constexpr size_t chunk = 1024;
  std::array<float, chunk> below;
  std::array<float, chunk> p;
  kept.clear();
  float sum = 0;
  for (size_t begin = 0; begin < ranked.size(); begin += chunk) {
    const auto elements = ranked.subspan(begin, std::min(chunk, ranked.size() - begin));
    kept.resize(begin + elements.size());
    Candidate* const candidates = kept.data() + begin;
    for (size_t i = 0; i < elements.size(); ++i) {
      const float logit = logit_of(elements[i]);
      candidates[i] = {elements[i].id, logit, 0.0f};
      below[i] = logit - greatest;
    }
    exp_floats(below.data(), elements.size(), p.data());
    for (size_t i = 0; i < elements.size(); ++i) p[i] /= exps_sum;
    for (size_t i = 0; i < elements.size(); ++i) candidates[i].p = p[i];
    // The sum does not fall: where it is short at the end, it is short before.
    const float end = add_in_order(sum, p.data(), elements.size());
    if (end >= p_ && kept.size() >= min_keep_) {
      for (size_t i = 0; i < elements.size(); ++i) {
        sum += p[i];
        if (!(sum >= p_ && begin + i + 1 >= min_keep_)) continue;
        kept.resize(begin + i + 1);
        return true;
      }
    }
    sum = end;
  }
  return false;
}

// Why it is exact: the sorted logits, and with them p and how many are kept, are the same whichever
// of several equal ones stands first. Where few are kept, the order is that of the first look,
// which sees no bucket after the one that completes it.
bool TopP::keep_open(std::span<const float> row, const RowIndex& index, Candidates& candidates,
                     Reference reference) const {
  if (!has_buckets(index)) return false;
  const float greatest = index.greatest_of_all();
  BucketGuess guess;
  const float exps_sum = exp_sum_in_id_order(row, greatest, guess);
  SortScratch& scratch = sort_scratch();
  // Little enough for a wrong guess to be rare: what is left out must not reach 1 - p.
  const float rest = 0.85f * std::max(1 - p_, 0.0f) * exps_sum;
  size_t buckets = guess.buckets_for(std::max(4 * first_look, 2 * min_keep_), rest);
  std::span<Keyed> front;
  while (true) {
    front = front_of(row, index, buckets, scratch.elements);
    const bool all = front.size() == row.size();
    if (scratch.radix.size() < front.size()) scratch.radix.resize(front.size());
    sort_by_key(front, scratch.radix);
    if (front.size() >= first_look &&
        (take_ranked(front, greatest, exps_sum, candidates.data) || all)) {
      break;
    }
    buckets = bucket_limit;
  }
  candidates.sorted = true;
  candidates.open = candidates.data.size() > first_look;
  if (!candidates.open) {
    const float last_looked_at = row[front[first_look - 1].id];
    front = front_of(row, index, bucket_of(last_looked_at) + 1, scratch.elements);
    scratch.logits.clear();
    scratch.ids.clear();
    for (const Keyed& element : front) {
      scratch.logits.push_back(row[element.id]);
      scratch.ids.push_back(element.id);
    }
    BucketOrder order(scratch.logits, scratch.ids.data(), reference);
    const std::vector<Keyed> first = order.first(first_look);
    for (size_t i = 0; i < candidates.data.size(); ++i) {
      const Candidate placed = order.candidate(first[i]);
      candidates.data[i].id = placed.id;
      candidates.data[i].logit = placed.logit;
    }
  }
  return true;
}

void TopP::apply_row_open(std::span<const float> row, Candidates& candidates,
                          RequestState& state) const {
  if (p_ < 1.0f && BucketOrder::worth_while_for(row.size()) &&
      keep_open(row, state.row_index(), candidates, state.reference())) {
    candidates.selected = -1;
    return;
  }
  apply_row(row, candidates, state);
}

uint32_t TopP::id_at(size_t place, const RequestState& state) const {
  const float logit = state.row()[state.candidates.data[place].id];
  return id_at_rank(state.row(), state.row_index(), place, logit, state.reference());
}

void TopP::apply_row(std::span<const float> row, Candidates& candidates,
                     RequestState& state) const {
  if (p_ < 1.0f && BucketOrder::worth_while_for(row.size()) &&
      keep_lazily(row, nullptr, candidates, state.reference())) {
    candidates.selected = -1;
    return;
  }
  Stage::apply_row(row, candidates, state);
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

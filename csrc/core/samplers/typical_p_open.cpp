// TypicalP where a token is all that is needed: sorts the logits only down to the least that is
// kept, and the distances not at all.
//
// Why it is exact. By falling logit, distances fall down to one place and rise from there, which is
// checked: so two runs merge into the order of the distances. Of tied ones that is one order of
// several, and so is that of tied logits. Sums of p and of the entropy's terms are the same in
// every order of those (add_in_any_order, or both orders of a pair), and so is that of what is not
// sorted; else this gives up, as it does where the last that is kept is tied with one of another
// logit.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "core/candidate_buckets.h"
#include "core/clones.h"
#include "core/exp_floats.h"
#include "core/ordered_sum.h"
#include "core/radix_sort.h"
#include "core/row_front.h"
#include "core/row_scan.h"
#include "core/samplers/typical_p.h"
#include "core/sort_scratch.h"

namespace mlx_sampling {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Where the compiler fuses a * b + c, the entropy's terms are not floats of their own.
#if defined(__x86_64__) || defined(_M_X64)
constexpr bool terms_are_rounded = true;
#else
constexpr bool terms_are_rounded = false;
#endif

// A logit that only few are above: they are in few blocks.
float ceiling_of(const RowIndex& index) {
  constexpr size_t few = 32;
  if (index.greatest.size() < 2 * few) return infinity;
  std::vector<float> bounds = index.greatest;
  std::nth_element(bounds.begin(), bounds.begin() + few, bounds.end(), std::greater<>());
  return bounds[few];
}

// What is left out of a guess; and lets it be one of the whole `sum`.
void add_above(std::span<const float> row, const RowIndex& index, float greatest,
               std::span<const float> exps, float sum, BucketGuess& guess,
               std::vector<Candidate>& above) {
  all_from(row, index, guess.ceiling, above);
  float exps_above = 0;
  for (const Candidate& candidate : above) exps_above += exps[candidate.id];
  const float looked_at = std::accumulate(guess.exps.begin(), guess.exps.end(), 0.0f);
  const float scale = looked_at > 0 ? std::max(sum - exps_above, 0.0f) / looked_at : 0.0f;
  for (size_t b = 0; b < bucket_limit; ++b) {
    guess.exps[b] *= scale;
    guess.weighted[b] *= scale;
  }
  for (const Candidate& candidate : above) {
    guess.add(candidate.logit, candidate.logit - greatest, exps[candidate.id]);
  }
}

// The first buckets down to the least logit that is guessed to be kept, and some more.
size_t buckets_for(const BucketGuess& guess, float p) {
  const std::array<float, bucket_limit>& mass = guess.exps;
  const float total = std::accumulate(mass.begin(), mass.end(), 0.0f);
  // Of a mean logit, less what is the same for all.
  std::array<float, bucket_limit> surprise;
  float entropy = 0;
  for (size_t b = 0; b < bucket_limit; ++b) {
    surprise[b] = mass[b] > 0 ? -guess.weighted[b] / mass[b] : 0.0f;
    entropy += mass[b] / total * surprise[b];
  }
  const auto distance = [&](size_t b) {
    return mass[b] > 0 ? std::abs(surprise[b] - entropy) : 0.0f;
  };
  size_t end = 0;
  while (end < bucket_limit && !(mass[end] > 0 && surprise[end] >= entropy)) ++end;
  size_t begin = end;
  const float wanted = p + 0.6f * (1 - p);  // a guess
  for (float kept = 0; kept <= wanted * total;) {
    if (begin == 0 && end == bucket_limit) break;
    const bool higher = end == bucket_limit || (begin > 0 && distance(begin - 1) < distance(end));
    kept += mass[higher ? --begin : end++];
  }
  return std::min<size_t>(end + 3, bucket_limit);
}

// Leaves 0 for the front in the exponentials of all, and returns the greatest of the others.
MLX_SAMPLING_CLONES float clear_front(const float* __restrict row, size_t count, float least,
                                      float* __restrict exps) {
  int32_t greatest = 0;  // bits of floats that are not negative are in their order
  for (size_t i = 0; i < count; ++i) {
    exps[i] = bucket_place(row[i]) >= least ? 0.0f : exps[i];
    greatest = std::max(greatest, std::bit_cast<int32_t>(exps[i]));
  }
  return std::bit_cast<float>(greatest);
}

// Between which a term -p * log(p) is, for p = exp(below) / sum, without libm: where it rounds the
// same way at both ends, it adds the same.
struct TermBounds {
  std::array<float, 1024> low;
  std::array<float, 1024> high;
};

// Of a logarithm beyond -1, the last places of libm's exponential and logarithm, and of what is
// computed here, are less than 1e-6.
constexpr float term_error = 4e-6f;

MLX_SAMPLING_CLONES void bound_terms(const float* __restrict row, const float* __restrict exps,
                                     size_t count, float greatest, float sum, float log_sum,
                                     float* __restrict low, float* __restrict high) {
  for (size_t i = 0; i < count; ++i) {
    const float surprise = log_sum - (row[i] - greatest);
    const float term = exps[i] / sum * surprise;
    low[i] = surprise > 1 ? term * (1 - term_error) : 0.0f;
    high[i] = surprise > 1 ? term * (1 + term_error) : infinity;
    low[i] = exps[i] > 0 ? low[i] : 0.0f;
    high[i] = exps[i] > 0 ? high[i] : 0.0f;
  }
}

// The same for the entropy's terms. `exps` of the front are 0, of the tail they are not.
bool add_tail_terms(std::span<const float> row, std::span<const float> exps, float greatest,
                    float sum, float& entropy) {
  TermBounds bounds;
  std::vector<uint32_t> open;
  const float log_sum = std::log(sum);
  for (size_t begin = 0; begin < row.size(); begin += bounds.low.size()) {
    const size_t count = std::min(bounds.low.size(), row.size() - begin);
    bound_terms(&row[begin], &exps[begin], count, greatest, sum, log_sum, bounds.low.data(),
                bounds.high.data());
    if (!add_between(entropy, bounds.low.data(), bounds.high.data(), count, begin, open)) {
      return false;
    }
  }
  std::vector<float> terms;
  for (const uint32_t id : open) {
    const float p = exps[id] / sum;
    terms.push_back(-p * std::log(p));
  }
  return add_in_any_order(entropy, terms.data(), terms.size());
}

// Writes logarithms of falling probabilities and returns the sum of their terms.
float add_front_terms(std::span<const float> probs, std::vector<float>& logs,
                      std::vector<float>& terms) {
  logs.resize(probs.size());
  terms.resize(probs.size());
  float last_p = 1;
  float last_log = 0;
  for (size_t i = 0; i < probs.size(); ++i) {
    if (probs[i] != last_p) {
      last_p = probs[i];
      last_log = std::log(last_p);
    }
    logs[i] = last_log;
  }
  for (size_t i = 0; i < probs.size(); ++i) terms[i] = -probs[i] * logs[i];
  return add_in_order(0.0f, terms.data(), terms.size());
}

// Ranks and their distances from the least distance on, until the sum of their probabilities is
// well over `p` and they are at least `min_keep`. False where distances do not fall and then rise.
bool merge(std::span<const float> distances, float entropy, std::span<const float> probs, float p,
           size_t min_keep, SortScratch& scratch) {
  const size_t size = distances.size();
  const auto rises = std::partition_point(scratch.logs.begin(), scratch.logs.end(),
                                          [=](float log) { return -log < entropy; });
  auto middle = static_cast<size_t>(rises - scratch.logs.begin());
  if (middle == size || (middle > 0 && distances[middle - 1] < distances[middle])) --middle;
  int32_t wrong = 0;
  for (size_t i = 1; i <= middle; ++i) {
    wrong |= static_cast<int32_t>(!(distances[i] <= distances[i - 1]));
  }
  for (size_t i = middle + 1; i < size; ++i) {
    wrong |= static_cast<int32_t>(!(distances[i] >= distances[i - 1]));
  }
  if (wrong != 0) return false;

  constexpr double well_over = 1e-3;
  std::vector<uint32_t>& ranks = scratch.merged;
  std::vector<float>& merged = scratch.merged_distances;
  ranks.resize(size);
  merged.resize(size);
  size_t left = middle;  // ranks [left, right) are merged
  size_t right = middle;
  double sum = 0;
  const auto take = [&] {
    const float before = left > 0 ? distances[left - 1] : infinity;
    const float after = right < size ? distances[right] : infinity;
    const size_t from_left = before < after ? 1 : 0;  // no branch: it is as good as random
    const size_t count = right - left;
    const size_t rank = right - from_left * (count + 1);
    ranks[count] = static_cast<uint32_t>(rank);
    merged[count] = std::min(before, after);
    left -= from_left;
    right += 1 - from_left;
    sum += probs[rank];
  };
  while (right - left < size && !(sum > p + well_over && right - left > min_keep)) take();
  // Up to one that is not tied with those.
  while (right - left < size) {
    take();
    if (merged[right - left - 1] != merged[right - left - 2]) break;
  }
  ranks.resize(right - left);
  merged.resize(right - left);
  return true;
}

// The end of the tied ones from `begin` on; whether they have several logits.
struct Group {
  size_t end;
  bool mixed;
};

Group group_from(size_t begin, size_t limit, std::span<const Keyed> front,
                 const SortScratch& scratch) {
  const auto& ranks = scratch.merged;
  const auto& distances = scratch.merged_distances;
  Group group{begin + 1, false};
  for (; group.end < limit && distances[group.end] == distances[begin]; ++group.end) {
    group.mixed |= front[ranks[group.end]].key != front[ranks[begin]].key;
  }
  return group;
}

// Adds a group of several p where every order of them gives the same sum.
bool add_mixed(float& sum, std::span<const float> p) {
  if (p.size() != 2) return add_in_any_order(sum, p.data(), p.size());
  const float one_way = (sum + p[0]) + p[1];
  const float other_way = (sum + p[1]) + p[0];
  sum = one_way;
  return one_way == other_way;
}

// Of the merged ones, the first `count`. False where the last one may be tied with others that are
// not merged.
bool write_kept(std::span<const Keyed> front, size_t count, bool all, Candidates& candidates) {
  const SortScratch& scratch = sort_scratch();
  const size_t merged = scratch.merged.size();
  candidates.data.resize(count);
  candidates.ties.resize(count);
  for (size_t i = 0; i < count;) {
    const Group group = group_from(i, merged, front, scratch);
    if (group.end == merged && !(all && merged == front.size())) return false;
    const Tie tie = group.mixed ? Tie::mixed : group.end - i > 1 ? Tie::equal : Tie::none;
    for (; i < std::min(group.end, count); ++i) {
      const Keyed& element = front[scratch.merged[i]];
      candidates.data[i] = {element.id, logit_of(element), scratch.merged_probs[i]};
      candidates.ties[i] = tie;
    }
  }
  return true;
}

}  // namespace

// Of the merged ones, how many are kept; 0 where that depends on the order of tied ones, and where
// there are too few.
size_t TypicalP::count_kept(std::span<const Keyed> front) const {
  const SortScratch& scratch = sort_scratch();
  const auto& distances = scratch.merged_distances;
  const std::span<const float> p(scratch.merged_probs);
  constexpr size_t block = 128;
  float sum = 0;
  const auto enough = [&](size_t count) { return sum > p_ && count >= min_keep_; };
  for (size_t i = 0; i < p.size();) {
    // Where a block ends before a group does, it ends where the group begins.
    size_t end = std::min(i + block, p.size());
    if (end < p.size()) {
      while (end > i && distances[end] == distances[end - 1]) --end;
    }
    float moved = sum;
    if (end > i && add_in_any_order(moved, p.data() + i, end - i) && !(moved > p_)) {
      sum = moved;
      i = end;
      continue;
    }
    const size_t at_least = std::max(end, i + 1);
    while (i < at_least) {
      const Group group = group_from(i, p.size(), front, scratch);
      if (group.mixed) {
        if (!add_mixed(sum, p.subspan(i, group.end - i)) || enough(group.end)) return 0;
        i = group.end;
        continue;
      }
      for (; i < group.end; ++i) {
        sum += p[i];
        if (enough(i + 1)) return i + 1;
      }
    }
  }
  return 0;
}

TypicalP::Outcome TypicalP::keep_of_front(std::span<const float> row, float greatest,
                                          size_t buckets, std::span<const Keyed> front,
                                          Candidates& candidates) const {
  if (front.empty()) return Outcome::front_too_short;
  SortScratch& scratch = sort_scratch();
  const bool all = front.size() == row.size();
  const float least = least_place(buckets - 1);
  std::vector<float>& probs = scratch.probs;
  probs.resize(front.size());
  scratch.below.resize(front.size());
  for (size_t i = 0; i < front.size(); ++i) scratch.below[i] = logit_of(front[i]) - greatest;
  exp_floats(scratch.below.data(), front.size(), probs.data());
  float sum = add_in_order(0.0f, probs.data(), probs.size());
  std::vector<float>& exps = scratch.exps;
  float tail_exp = 0;
  if (!all) {
    tail_exp = clear_front(row.data(), row.size(), least, exps.data());
    if (!add_in_any_order(sum, exps.data(), exps.size())) return Outcome::front_too_short;
  }
  for (float& p : probs) p /= sum;

  float entropy = add_front_terms(probs, scratch.logs, scratch.distances);
  if (!all && !add_tail_terms(row, exps, greatest, sum, entropy)) {
    return Outcome::front_too_short;
  }
  if (!std::isfinite(entropy)) return Outcome::not_possible;
  std::vector<float>& distances = scratch.distances;
  for (size_t i = 0; i < front.size(); ++i) distances[i] = std::abs(-scratch.logs[i] - entropy);
  // Below every distance of the tail: libm's logarithm is right to a few last places.
  const float tail_distance = all ? infinity : -std::log(tail_exp / sum) - entropy - 1e-4f;
  if (!(tail_distance > 0)) return Outcome::front_too_short;
  if (!merge(distances, entropy, probs, p_, min_keep_, scratch)) return Outcome::not_possible;
  scratch.merged_probs.resize(scratch.merged.size());
  for (size_t i = 0; i < scratch.merged.size(); ++i) {
    scratch.merged_probs[i] = probs[scratch.merged[i]];
  }
  if (!(scratch.merged_distances.back() < tail_distance)) return Outcome::front_too_short;
  const size_t count = count_kept(front);
  if (count == 0) return all ? Outcome::not_possible : Outcome::front_too_short;

  return write_kept(front, count, all, candidates) ? Outcome::kept : Outcome::not_possible;
}

bool TypicalP::keep_open(std::span<const float> row, const RowIndex& index,
                         Candidates& candidates) const {
  if (!terms_are_rounded || !has_buckets(index)) return false;
  const float greatest = index.greatest_of_all();
  // Deeper down a probability may be 0, and the entropy NaN.
  constexpr float deepest = -60.0f;
  if (!(index.least - greatest > deepest)) return false;
  SortScratch& scratch = sort_scratch();
  scratch.exps.resize(row.size());
  BucketGuess guess;
  guess.ceiling = ceiling_of(index);
  const float sum = exp_sum_in_id_order(row, greatest, guess, scratch.exps.data());
  add_above(row, index, greatest, scratch.exps, sum, guess, candidates.data);
  size_t buckets = buckets_for(guess, p_);
  for (size_t tries = 0;; ++tries) {
    const std::span<Keyed> front = front_of(row, index, buckets, scratch.elements);
    if (scratch.radix.size() < front.size()) scratch.radix.resize(front.size());
    sort_by_key(front, scratch.radix);
    const Outcome outcome = keep_of_front(row, greatest, buckets, front, candidates);
    if (outcome == Outcome::kept) return true;
    if (outcome == Outcome::not_possible || front.size() == row.size()) return false;
    buckets = front.size() < row.size() / 2 && tries == 0
                  ? std::min<size_t>(buckets + 8, bucket_limit)
                  : bucket_limit;
  }
}

}  // namespace mlx_sampling

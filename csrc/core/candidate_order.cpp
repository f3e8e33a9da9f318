#include "core/candidate_order.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "core/float_to_int.h"
#include "core/reference_order.h"

namespace mlx_sampling {
namespace {

constexpr int bucket_count = 128;
constexpr float lowest = -10.0f;
constexpr float highest = 10.0f;
constexpr float buckets_per_logit = bucket_count / (highest - lowest);
constexpr float bucket_of_zero = -lowest * buckets_per_logit;

bool comes_first(const Candidate& a, const Candidate& b) { return a.logit > b.logit; }

// Bucket 0 has the greatest logits, and the last one also those too great for an int.
size_t bucket_of(const Candidate& candidate) {
  const int32_t rising = truncate_as_x86(buckets_per_logit * candidate.logit + bucket_of_zero);
  return static_cast<size_t>(bucket_count - 1 - std::clamp(rising, 0, bucket_count - 1));
}

}  // namespace

std::vector<Candidate> greatest_by_buckets(const Candidates& candidates, size_t count,
                                           Reference reference) {
  const auto less = [](const Candidate& a, const Candidate& b) { return comes_first(a, b); };
  std::array<size_t, bucket_count> sizes{};
  std::vector<uint8_t> buckets;
  buckets.reserve(candidates.data.size());
  for (const Candidate& candidate : candidates.data) {
    const size_t bucket = bucket_of(candidate);
    buckets.push_back(static_cast<uint8_t>(bucket));
    ++sizes[bucket];
  }

  // Up to and with the bucket that completes the count.
  std::array<size_t, bucket_count> begins{};
  size_t last = 0;
  size_t total = sizes[0];
  while (total < count) {
    begins[++last] = total;
    total += sizes[last];
  }

  std::vector<Candidate> sorted(total);
  std::array<size_t, bucket_count> next = begins;
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i] <= last) sorted[next[buckets[i]]++] = candidates.data[i];
  }
  const std::span<Candidate> all(sorted);
  for (size_t bucket = 0; bucket < last; ++bucket) {
    reference_sort(reference, all.subspan(begins[bucket], sizes[bucket]), less);
  }
  reference_partial_sort(reference, all.subspan(begins[last]), count - begins[last], less);
  sorted.resize(count);
  return sorted;
}

void keep_greatest(Candidates& candidates, size_t count, Reference reference) {
  if (count <= greatest_heap) {
    const auto less = [](const Candidate& a, const Candidate& b) { return comes_first(a, b); };
    reference_partial_sort(reference, std::span<Candidate>(candidates.data), count, less);
    candidates.data.resize(count);
  } else {
    const auto sorted = greatest_by_buckets(candidates, count, reference);
    candidates.data.assign(sorted.begin(), sorted.end());
  }
  candidates.sorted = true;
}

void sort_candidates(Candidates& candidates, Reference reference) {
  if (!candidates.sorted) keep_greatest(candidates, candidates.data.size(), reference);
}

}  // namespace mlx_sampling

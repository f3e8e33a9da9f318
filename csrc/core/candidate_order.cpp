#include "core/candidate_order.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "core/bucket_order.h"
#include "core/candidate_buckets.h"
#include "core/float_to_int.h"
#include "core/reference_order.h"
#include "core/sort_scratch.h"

namespace mlx_sampling {
namespace {

constexpr int bucket_count = bucket_limit;

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

LogitsAndIds logits_and_ids(const Candidates& candidates) {
  std::vector<float>& logits = sort_scratch().logits;
  std::vector<uint32_t>& ids = sort_scratch().ids;
  const auto& data = candidates.data;
  logits.resize(data.size());
  ids.resize(data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    logits[i] = data[i].logit;
    ids[i] = data[i].id;
  }
  return {logits, ids.data()};
}

void sort_candidates(Candidates& candidates, Reference reference) {
  if (candidates.sorted) return;
  if (BucketOrder::worth_while_for(candidates.data.size())) {
    const LogitsAndIds columns = logits_and_ids(candidates);
    BucketOrder order(columns.logits, columns.ids, reference);
    if (order.usable()) {
      std::vector<Candidate>& sorted = sort_scratch().sorted;
      sorted.resize(candidates.data.size());
      auto next = sorted.begin();
      for (size_t b = 0; b < order.bucket_count(); ++b) {
        for (const Keyed& element : order.sorted(b)) {
          *next = order.candidate(element);
          (next++)->p = candidates.data[element.id].p;
        }
      }
      candidates.data.swap(sorted);
      candidates.sorted = true;
      return;
    }
  }
  keep_greatest(candidates, candidates.data.size(), reference);
}

}  // namespace mlx_sampling

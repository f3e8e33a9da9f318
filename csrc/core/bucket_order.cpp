#include "core/bucket_order.h"

#include <algorithm>
#include <cmath>

#include "core/candidate_buckets.h"
#include "core/clones.h"
#include "core/exp_floats.h"
#include "core/ordered_sum.h"
#include "core/reference_order.h"
#include "core/sort_scratch.h"

namespace mlx_sampling {
namespace {

// Returns whether all logits are numbers below what overflows an int.
MLX_SAMPLING_CLONES bool find_buckets(const float* __restrict logits, size_t count,
                                      uint8_t* __restrict buckets, float* __restrict greatest) {
  int32_t odd = 0;
  int32_t key = falling_key(*greatest);
  for (size_t i = 0; i < count; ++i) {
    const float place = bucket_place(logits[i]);
    odd |= static_cast<int32_t>(!(place < bucket_place_end));
    buckets[i] = static_cast<uint8_t>(bucket_at(place));
    key = std::min(key, falling_key(logits[i]));
  }
  *greatest = std::bit_cast<float>(Float32Bits::word(-key));
  return odd == 0;
}

bool less_key(const Keyed& a, const Keyed& b) { return a.key < b.key; }

}  // namespace

BucketOrder::BucketOrder(std::span<const float> logits, const uint32_t* ids, Reference reference)
    : logits_(logits), ids_(ids), reference_(reference), elements_(sort_scratch().elements) {
  const size_t size = logits.size();
  std::vector<uint8_t>& buckets = sort_scratch().buckets;
  buckets.resize(size);
  greatest_ = logits[0];
  usable_ = find_buckets(logits.data(), size, buckets.data(), &greatest_);
  usable_ = usable_ && std::isfinite(greatest_);
  if (!usable_) return;

  // Four counts at a time: neighbours often fall into one bucket.
  std::array<std::array<uint32_t, bucket_limit>, 4> counts{};
  for (size_t i = 0; i < size; ++i) ++counts[i % 4][buckets[i]];
  std::array<Keyed*, bucket_limit> next;
  elements_.resize(size);
  for (size_t b = 0; b < bucket_limit; ++b) {
    next[b] = elements_.data() + begins_[b];
    const size_t in_bucket = counts[0][b] + counts[1][b] + counts[2][b] + counts[3][b];
    begins_[b + 1] = begins_[b] + in_bucket;
    if (in_bucket > 0) bucket_count_ = b + 1;
  }
  for (size_t i = 0; i < size; ++i) {
    *next[buckets[i]]++ = {falling_key(logits[i]), static_cast<uint32_t>(i)};
  }
}

std::span<const Keyed> BucketOrder::sorted(size_t index) {
  const std::span<Keyed> elements = elements_of(index);
  if (!is_sorted_[index]) {
    if (index + 1 < bucket_count_) {
      reference_sort_keyed(reference_, elements, [](const Keyed*) { return true; });
    } else {
      const auto less = [](const Keyed& a, const Keyed& b) { return less_key(a, b); };
      reference_partial_sort(reference_, elements, elements.size(), less);
    }
    is_sorted_[index] = true;
  }
  return elements;
}

std::vector<Keyed> BucketOrder::first(size_t count) const {
  size_t last = 0;
  while (begins_[last + 1] < count) ++last;
  std::vector<Keyed> found(elements_.begin(),
                           elements_.begin() + static_cast<ptrdiff_t>(begins_[last + 1]));
  const std::span<Keyed> all(found);
  for (size_t b = 0; b < last; ++b) {
    const auto elements = all.subspan(begins_[b], begins_[b + 1] - begins_[b]);
    reference_sort_keyed(reference_, elements, [](const Keyed*) { return true; });
  }
  const auto less = [](const Keyed& a, const Keyed& b) { return less_key(a, b); };
  reference_partial_sort(reference_, all.subspan(begins_[last]), count - begins_[last], less);
  found.resize(count);
  return found;
}

float BucketOrder::softmax_sum() {
  std::vector<float>& below = sort_scratch().below;
  std::vector<float>& exps = sort_scratch().exps;
  const auto find_exps = [&](std::span<const Keyed> elements) {
    below.clear();
    for (const Keyed& element : elements) below.push_back(logit(element) - greatest_);
    exps.resize(below.size());
    exp_floats(below.data(), below.size(), exps.data());
  };
  float sum = 0;
  for (size_t b = 0; b < bucket_count_; ++b) {
    find_exps(bucket(b));
    if (add_in_any_order(sum, exps.data(), exps.size())) continue;
    find_exps(sorted(b));
    sum = add_in_order(sum, exps.data(), exps.size());
  }
  return sum;
}

}  // namespace mlx_sampling

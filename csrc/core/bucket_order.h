// Many candidates by falling logit, in the order that llama.cpp gets for all of them, and sorted
// only as far as somebody looks.
//
// llama.cpp spreads candidates over 128 buckets by logit, in the order they come in, and sorts each
// with the standard library. So a bucket can be sorted alone, and small elements with integer keys
// in place of candidates: the library sees the same comparisons, and moves the same places.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/candidates.h"
#include "core/fast_paths.h"
#include "core/keyed.h"
#include "core/reference.h"

namespace mlx_sampling {

class BucketOrder {
 public:
  // Over few candidates llama.cpp has no buckets, or it is not worth while.
  static constexpr size_t few = 1024;
  static bool worth_while_for(size_t size) { return size > few && fast_paths(); }

  // `ids` null: an id is a position. Both outlive this.
  BucketOrder(std::span<const float> logits, const uint32_t* ids, Reference reference);

  // False where a logit is NaN or too great for a bucket, so that buckets do not follow each other,
  // and where all are -inf.
  bool usable() const { return usable_; }

  size_t size() const { return logits_.size(); }
  float greatest() const { return greatest_; }

  // Up to and with the last bucket that has candidates.
  size_t bucket_count() const { return bucket_count_; }

  // The bucket's elements in llama.cpp's order if it has been sorted, else as they came.
  std::span<const Keyed> bucket(size_t index) const { return elements_of(index); }

  // Sorts the bucket unless it is.
  std::span<const Keyed> sorted(size_t index);

  // All elements as they came, bucket by bucket; before anything is sorted.
  std::span<const Keyed> elements() const { return elements_; }

  // Position of the bucket's first element among all.
  size_t begin(size_t index) const { return begins_[index]; }

  // The element that llama.cpp has at a rank; sorts its bucket unless it is.
  const Keyed& at_rank(size_t rank) {
    const auto next = std::upper_bound(begins_.begin(), begins_.end(), rank);
    const auto index = static_cast<size_t>(next - begins_.begin()) - 1;
    return sorted(index)[rank - begins_[index]];
  }

  // The `count` greatest as llama.cpp gets them if it asks for no more; before anything is sorted.
  std::vector<Keyed> first(size_t count) const;

  float logit(const Keyed& element) const {
    return element.key != 0 ? std::bit_cast<float>(Float32Bits::word(-element.key))
                            : logits_[element.id];  // 0.0 or -0.0
  }
  Candidate candidate(const Keyed& element) const {
    return {ids_ == nullptr ? element.id : ids_[element.id], logit(element), 0.0f};
  }

  // What a float softmax over the sorted candidates divides by.
  float softmax_sum();

 private:
  std::span<Keyed> elements_of(size_t index) const {
    return {elements_.data() + begins_[index], begins_[index + 1] - begins_[index]};
  }

  std::span<const float> logits_;
  const uint32_t* ids_;
  Reference reference_;
  bool usable_ = true;
  float greatest_ = 0;
  size_t bucket_count_ = 0;
  std::array<size_t, 129> begins_{};
  std::array<bool, 128> is_sorted_{};
  std::vector<Keyed>& elements_;  // the thread's: one of these lives at a time
};

}  // namespace mlx_sampling

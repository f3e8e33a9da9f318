// The buckets that llama.cpp sorts many candidates through: 128 over the logits -10 to 10.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace mlx_sampling {

inline constexpr int bucket_limit = 128;
inline constexpr float lowest_of_buckets = -10.0f;
inline constexpr float highest_of_buckets = 10.0f;
inline constexpr float buckets_per_logit = bucket_limit / (highest_of_buckets - lowest_of_buckets);
inline constexpr float bucket_of_zero = -lowest_of_buckets * buckets_per_logit;

// Where a logit lies among the buckets, counted from the lowest; beyond either end too.
[[gnu::always_inline]] inline float bucket_place(float logit) {
  return buckets_per_logit * logit + bucket_of_zero;
}

// From there, or above it, llama.cpp's conversion to int overflows.
inline constexpr float bucket_place_end = 1e9f;

// The bucket of a place below `bucket_place_end`: 0 is that of the greatest logits.
[[gnu::always_inline]] inline int32_t bucket_at(float place) {
  const float from_0 = place > 0 ? place : 0;
  const float rising = from_0 < bucket_limit - 1 ? from_0 : bucket_limit - 1;
  return bucket_limit - 1 - static_cast<int32_t>(rising);
}

inline size_t bucket_of(float logit) { return static_cast<size_t>(bucket_at(bucket_place(logit))); }

// The least place in a bucket, below which the next ones are: -inf for the last.
inline float least_place(size_t bucket) {
  const auto rising = static_cast<float>(bucket_limit - 1 - static_cast<int32_t>(bucket));
  return rising > 0 ? rising : -std::numeric_limits<float>::infinity();
}

}  // namespace mlx_sampling

// The buckets that llama.cpp sorts many candidates through: 128 over the logits -10 to 10.
#pragma once

namespace mlx_sampling {

inline constexpr int bucket_limit = 128;
inline constexpr float lowest_of_buckets = -10.0f;
inline constexpr float highest_of_buckets = 10.0f;
inline constexpr float buckets_per_logit = bucket_limit / (highest_of_buckets - lowest_of_buckets);
inline constexpr float bucket_of_zero = -lowest_of_buckets * buckets_per_logit;

}  // namespace mlx_sampling

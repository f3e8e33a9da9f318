// The greatest logits of a row by falling logit, without regard to the order of ties, down to where
// somebody needs them.
//
// llama.cpp sorts a row through buckets (see bucket_order.h): equal logits share a bucket, and the
// order of ties in one does not depend on the others. So logits can be sorted by themselves, and
// the id that llama.cpp has at a place is found by doing its sort of one bucket, later and only if
// somebody asks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/candidate_buckets.h"
#include "core/keyed.h"
#include "core/reference.h"
#include "core/row_index.h"

namespace mlx_sampling {

// Whether the buckets of a row follow each other: none of its logits is too great for one.
bool has_buckets(const RowIndex& index);

// Some of a row's logits, by bucket: how many were looked at, and sums over them, of e = exp(logit
// - greatest) and of e * (logit - greatest). A guess for what all of a bucket have is `share` times
// as much. Few logits can make up most of the sum: those above a ceiling are better left out, and
// added by themselves.
struct BucketGuess {
  static constexpr size_t share = block_width / 16;
  float ceiling = std::numeric_limits<float>::infinity();
  std::array<uint32_t, bucket_limit> counts{};
  std::array<float, bucket_limit> exps{};
  std::array<float, bucket_limit> weighted{};

  void add(float logit, float below, float exp) {
    const size_t bucket = bucket_of(logit);
    ++counts[bucket];
    exps[bucket] += exp;
    weighted[bucket] += exp * below;
  }

  // As few of the first buckets as are guessed to hold `count` logits, and to leave no more than
  // `rest` to the exponentials of all others.
  size_t buckets_for(size_t count, float rest) const;
};

// The float sum of exp(logit - greatest) in id order; `all` gets the exponentials unless it is
// null.
float exp_sum_in_id_order(std::span<const float> row, float greatest, BucketGuess& guess,
                          float* all = nullptr);

// The elements of a row's first `buckets`, in id order; they lie in `memory`.
std::span<Keyed> front_of(std::span<const float> row, const RowIndex& index, size_t buckets,
                          std::vector<Keyed>& memory);

// How many candidates of a row have one logit.
struct LogitRun {
  int32_t key;  // falling
  uint32_t count;
};

// All logits of a row, the greatest first.
std::vector<LogitRun> runs_of(std::span<const float> row, const RowIndex& index);

// The id that llama.cpp has at `rank` after it sorted the whole row, where `logit` is the one that
// stands there.
uint32_t id_at_rank(std::span<const float> row, const RowIndex& index, size_t rank, float logit,
                    Reference reference);

}  // namespace mlx_sampling

// Candidates by falling logit, in the order that llama.cpp gets from the standard library that the
// reference names: candidates of equal logits do not come out by id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/candidates.h"
#include "core/reference.h"

namespace mlx_sampling {

// The `count` greatest candidates in order, 1 <= count <= size; `candidates` stay as they are.
// Sorts through 128 buckets over the logits -10 to 10, of which the rarer lower ones are left out.
std::vector<Candidate> greatest_by_buckets(const Candidates& candidates, size_t count,
                                           Reference reference);

// Up to this count a heap of it finds the greatest candidates; above it, buckets do.
inline constexpr size_t greatest_heap = 128;

// Keeps the `count` greatest candidates, in order and marked as sorted; count <= size. The order of
// equal logits changes at `greatest_heap`.
void keep_greatest(Candidates& candidates, size_t count, Reference reference);

// The columns of candidates, for BucketOrder; in the thread's scratch memory.
struct LogitsAndIds {
  std::span<const float> logits;
  const uint32_t* ids;
};
LogitsAndIds logits_and_ids(const Candidates& candidates);

// Puts all candidates in order, unless they are marked as sorted.
void sort_candidates(Candidates& candidates, Reference reference);

}  // namespace mlx_sampling

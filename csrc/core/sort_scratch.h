// Memory that the sorts of many candidates use again, one for each thread: asking the system for
// fresh pages in every step can take as long as the sort. What is in it means nothing between two
// stages of a chain.
#pragma once

#include <cstdint>
#include <vector>

#include "core/candidates.h"
#include "core/keyed.h"

namespace mlx_sampling {

struct SortScratch {
  std::vector<float> logits;
  std::vector<uint32_t> ids;
  std::vector<uint8_t> buckets;
  std::vector<Keyed> elements;
  std::vector<Keyed> ranked;
  std::vector<Keyed> radix;
  std::vector<float> below;
  std::vector<float> exps;
  std::vector<float> distances;
  std::vector<float> probs;
  std::vector<float> logs;
  std::vector<uint32_t> merged;
  std::vector<float> merged_distances;
  std::vector<float> merged_probs;
  std::vector<KeyedInteger> order;
  std::vector<Candidate> sorted;
};

inline SortScratch& sort_scratch() {
  thread_local SortScratch scratch;
  return scratch;
}

}  // namespace mlx_sampling

// One place of libstdc++'s std::sort over an array that is made of few runs of equal keys: its
// partitions move whole pieces of runs. Distances of rounded logits are such an array, with one
// valley, and that is where std::sort does its worst: it splits off a few elements each time until
// it gives up and makes a heap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/keyed.h"

namespace mlx_sampling {

// Elements of one key whose ids follow each other, upwards or downwards.
struct KeyRun {
  int32_t key;
  uint32_t first;
  int32_t step;  // 1 or -1
  uint32_t count;
};

// As reference_at_rank(Reference::libstdcxx, ...) over the elements of the runs.
KeyedInteger element_of_runs_at_rank(std::span<const KeyRun> runs, size_t rank);

}  // namespace mlx_sampling

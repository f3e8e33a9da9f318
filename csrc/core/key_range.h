// Greatest and least key of a run of logits: the loops that read every logit, and the only
// vectorised ones.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlx_sampling {

template <typename Key>
struct KeyRange {
  Key greatest;
  Key least;
};

// Over `count` >= 1 words, NaN included.
KeyRange<int32_t> key_range(const uint32_t* words, size_t count);
KeyRange<int16_t> key_range(const uint16_t* words, size_t count);

// The same, and copies the words to memory that does not overlap them.
KeyRange<int32_t> copy_with_key_range(const uint32_t* words, size_t count, uint32_t* copy);

// Greatest key that is at most `limit` over `count` words; the type's least value where there is
// none.
int32_t greatest_key_up_to(const uint32_t* words, size_t count, int32_t limit);
int16_t greatest_key_up_to(const uint16_t* words, size_t count, int16_t limit);

}  // namespace mlx_sampling

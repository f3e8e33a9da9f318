#include "core/key_range.h"

#include <algorithm>
#include <limits>

#include "core/clones.h"
#include "core/logit_bits.h"

namespace mlx_sampling {
namespace {

// Keys do not depend on where infinity lies, so the two 16-bit formats share one loop.
template <typename Bits>
[[gnu::always_inline]] inline KeyRange<typename Bits::Key> range_of(
    const typename Bits::Word* words, size_t count) {
  using Key = typename Bits::Key;
  Key greatest = std::numeric_limits<Key>::min();
  Key least = std::numeric_limits<Key>::max();
  for (size_t i = 0; i < count; ++i) {
    const Key key = Bits::key(words[i]);
    greatest = std::max(greatest, key);
    least = std::min(least, key);
  }
  return {greatest, least};
}

template <typename Bits>
[[gnu::always_inline]] inline typename Bits::Key greatest_up_to(const typename Bits::Word* words,
                                                                size_t count,
                                                                typename Bits::Key limit) {
  using Key = typename Bits::Key;
  Key greatest = std::numeric_limits<Key>::min();
  for (size_t i = 0; i < count; ++i) {
    const Key key = Bits::key(words[i]);
    greatest = std::max(greatest, key > limit ? std::numeric_limits<Key>::min() : key);
  }
  return greatest;
}

}  // namespace

MLX_SAMPLING_CLONES KeyRange<int32_t> key_range(const uint32_t* words, size_t count) {
  return range_of<Float32Bits>(words, count);
}

MLX_SAMPLING_CLONES KeyRange<int16_t> key_range(const uint16_t* words, size_t count) {
  return range_of<Float16Bits>(words, count);
}

MLX_SAMPLING_CLONES KeyRange<int32_t> copy_with_key_range(const uint32_t* __restrict words,
                                                          size_t count, uint32_t* __restrict copy) {
  KeyRange<int32_t> range{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  for (size_t i = 0; i < count; i += 16) __builtin_prefetch(words + i + 2048);
  for (size_t i = 0; i < count; ++i) {
    copy[i] = words[i];
    const int32_t key = Float32Bits::key(words[i]);
    range.greatest = std::max(range.greatest, key);
    range.least = std::min(range.least, key);
  }
  return range;
}

MLX_SAMPLING_CLONES int32_t greatest_key_up_to(const uint32_t* words, size_t count, int32_t limit) {
  return greatest_up_to<Float32Bits>(words, count, limit);
}

MLX_SAMPLING_CLONES int16_t greatest_key_up_to(const uint16_t* words, size_t count, int16_t limit) {
  return greatest_up_to<Float16Bits>(words, count, limit);
}

}  // namespace mlx_sampling

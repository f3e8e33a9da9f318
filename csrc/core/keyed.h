// Eight bytes per element to sort in place of larger ones: an integer key and where it belongs.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/logit_bits.h"

namespace mlx_sampling {

struct Keyed {
  int32_t key;
  uint32_t id;
};

// The same to sort, and seen by libc++'s heaps as an integer: see heaps_as_arithmetic.
struct KeyedInteger : Keyed {};

// Keys in the order of floats that are not NaN: equal where the floats are, -0.0 and 0.0 too.
inline int32_t rising_key(float value) { return Float32Bits::key(std::bit_cast<uint32_t>(value)); }
inline int32_t falling_key(float value) { return -rising_key(value); }

// The logit whose falling key an element has, up to the sign of 0.
inline float logit_of(const Keyed& element) {
  return std::bit_cast<float>(Float32Bits::word(-element.key));
}

// What an insertion sort of up to 24 elements gives: equal ones stay in order. Each is put where
// the number of those before it says, without a branch.
template <typename T>
void sort_short(T* first, ptrdiff_t size) {
  if (size < 2) return;
  std::array<T, 24> copy;
  for (ptrdiff_t i = 0; i < size; ++i) copy[i] = first[i];
  for (ptrdiff_t i = 0; i < size; ++i) {
    ptrdiff_t before = 0;
    for (ptrdiff_t j = 0; j < i; ++j) before += copy[j].key <= copy[i].key ? 1 : 0;
    for (ptrdiff_t j = i + 1; j < size; ++j) before += copy[j].key < copy[i].key ? 1 : 0;
    first[before] = copy[i];
  }
}

}  // namespace mlx_sampling

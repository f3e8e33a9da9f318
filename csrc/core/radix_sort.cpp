#include "core/radix_sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace mlx_sampling {
namespace {

constexpr size_t few = 64;
constexpr int digit_bits = 11;
constexpr size_t digits = size_t{1} << digit_bits;

}  // namespace

void sort_by_key(std::span<Keyed> data, std::span<Keyed> scratch) {
  const auto less = [](const Keyed& a, const Keyed& b) { return a.key < b.key; };
  if (data.size() <= few) {
    std::sort(data.begin(), data.end(), less);
    return;
  }
  int32_t least = data[0].key;
  int32_t greatest = least;
  uint32_t differing = 0;
  for (const Keyed& element : data) {
    least = std::min(least, element.key);
    greatest = std::max(greatest, element.key);
    differing |= static_cast<uint32_t>(element.key ^ data[0].key);
  }
  if (differing == 0) return;
  const auto base = static_cast<uint32_t>(least);
  const int bits = std::bit_width(static_cast<uint32_t>(greatest) - base);
  // Low bits that all keys share are the least key's too. Of widened bfloat16 they are half of all.
  const int shared = std::countr_zero(differing);
  Keyed* from = data.data();
  Keyed* to = scratch.data();
  for (int shift = shared; shift < bits; shift += digit_bits) {
    const auto digit = [=](const Keyed& element) {
      return ((static_cast<uint32_t>(element.key) - base) >> shift) % digits;
    };
    std::array<uint32_t, digits> next{};
    for (size_t i = 0; i < data.size(); ++i) ++next[digit(from[i])];
    uint32_t begin = 0;
    for (uint32_t& count : next) begin += std::exchange(count, begin);
    for (size_t i = 0; i < data.size(); ++i) to[next[digit(from[i])]++] = from[i];
    std::swap(from, to);
  }
  if (from != data.data()) std::copy_n(from, data.size(), data.data());
}

}  // namespace mlx_sampling

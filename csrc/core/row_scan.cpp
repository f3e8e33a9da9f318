#include "core/row_scan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>

#include "core/clones.h"
#include "core/keyed.h"
#include "core/reference_order.h"

namespace mlx_sampling {
namespace {

MLX_SAMPLING_CLONES void flag_from(const float* __restrict logits, size_t count, float least,
                                   uint8_t* __restrict flags) {
  for (size_t i = 0; i < count; ++i) flags[i] = logits[i] >= least ? 1 : 0;
}

MLX_SAMPLING_CLONES void flag_above(const float* __restrict logits, size_t count, float floor,
                                    uint8_t* __restrict flags) {
  for (size_t i = 0; i < count; ++i) flags[i] = logits[i] > floor ? 1 : 0;
}

// Calls `visit(i)` in order for each position of a block, which begins at `begin`, that `flag`
// marks with a 1.
template <typename Flag, typename Visit>
void for_each_flagged(std::span<const float> row, size_t begin, size_t end, Flag&& flag,
                      Visit&& visit) {
  static_assert(std::endian::native == std::endian::little, "the first flag is the lowest bits");
  constexpr size_t step = sizeof(uint64_t);
  std::array<uint8_t, block_width> flags;
  const size_t count = end - begin;
  flag(&row[begin], count, flags.data());
  std::fill(flags.begin() + static_cast<ptrdiff_t>(count), flags.end(), uint8_t{0});
  for (size_t at = 0; at < flags.size(); at += step) {
    uint64_t marks;
    std::memcpy(&marks, &flags[at], step);
    for (; marks != 0; marks &= marks - 1) {
      visit(begin + at + static_cast<size_t>(std::countr_zero(marks)) / 8);
    }
  }
}

// The same for the logits that are at least `least`.
template <typename Visit>
void for_each_from(std::span<const float> row, size_t begin, size_t end, float least,
                   Visit&& visit) {
  const auto flag = [=](const float* logits, size_t count, uint8_t* flags) {
    flag_from(logits, count, least, flags);
  };
  for_each_flagged(row, begin, end, flag, visit);
}

// Whether a row looks like one of bfloat16 logits, of which some are tied for sure.
bool looks_widened(std::span<const float> row) {
  constexpr uint32_t low_half = 0xFFFF;
  uint32_t bits = 0;
  for (size_t i = 0; i < std::min<size_t>(row.size(), 16); ++i) {
    bits |= std::bit_cast<uint32_t>(row[i]);
  }
  return (bits & low_half) == 0;
}

// The `count` greatest where no two of them are equal, nor the last and one that is left out: there
// is only one order then, whoever sorts. Of the greatest logits of all blocks, the count-th
// greatest is a bound that at least `count` logits reach, and not many more.
bool find_untied(std::span<const float> row, const RowIndex& index, size_t count,
                 std::vector<Candidate>& found) {
  if (index.greatest.size() < 2 * count || looks_widened(row)) return false;
  std::vector<float> bounds = index.greatest;
  const auto bound = bounds.begin() + static_cast<ptrdiff_t>(count) - 1;
  std::nth_element(bounds.begin(), bound, bounds.end(), std::greater<>());
  const size_t too_many = 4 * count;
  found.clear();
  const auto take = [&](size_t i) { found.push_back({static_cast<uint32_t>(i), row[i], 0.0f}); };
  index.for_each_block<true>(
      0, row.size(), [&] { return *bound; },
      [&](size_t begin, size_t end) {
        if (found.size() >= too_many) return;
        for_each_from(row, begin, end, *bound, take);
      });
  if (found.size() >= too_many) return false;
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  for (size_t i = 0; i < count && i + 1 < found.size(); ++i) {
    if (found[i].logit == found[i + 1].logit) return false;
  }
  found.resize(count);
  return true;
}

}  // namespace

void find_greatest(std::span<const float> row, const RowIndex& index, size_t count,
                   Reference reference, std::vector<Candidate>& found) {
  if (find_untied(row, index, count, found)) return;
  const auto keyed = [&](size_t i) { return Keyed{falling_key(row[i]), static_cast<uint32_t>(i)}; };
  std::vector<Keyed> elements;
  for (size_t i = 0; i < count; ++i) elements.push_back(keyed(i));
  ReferenceHeap heap(reference, std::span(elements),
                     [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
  float least = row[heap.greatest().id];
  index.for_each_block<false>(
      count, row.size(), [&] { return least; },
      [&](size_t begin, size_t end) {
        const auto flag = [=](const float* logits, size_t size, uint8_t* flags) {
          flag_above(logits, size, least, flags);
        };
        for_each_flagged(row, begin, end, flag, [&](size_t i) {
          if (!(row[i] > least)) return;  // it has risen
          heap.take(keyed(i));
          least = row[heap.greatest().id];
        });
      });
  heap.sort();
  found.clear();
  for (const Keyed& element : elements) found.push_back({element.id, row[element.id], 0.0f});
}

void all_from(std::span<const float> row, const RowIndex& index, float least,
              std::vector<Candidate>& found) {
  found.clear();
  index.for_each_block<true>(
      0, row.size(), [&] { return least; },
      [&](size_t begin, size_t end) {
        for_each_from(row, begin, end, least,
                      [&](size_t i) { found.push_back({static_cast<uint32_t>(i), row[i], 0.0f}); });
      });
}

}  // namespace mlx_sampling

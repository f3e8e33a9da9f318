#include "core/row_scan.h"

#include <algorithm>
#include <functional>

#include "core/reference_order.h"

namespace mlx_sampling {
namespace {

constexpr size_t group = 16;

bool any_above(const float* logits, float floor) {
  int any = 0;
  for (size_t i = 0; i < group; ++i) any |= static_cast<int>(logits[i] > floor);
  return any != 0;
}

// The `count` greatest where no two of them are equal, nor the last and one that is left out: there
// is only one order then, whoever sorts. Of the greatest logits of all blocks, the count-th
// greatest is a bound that at least `count` logits reach, and not many more.
bool find_untied(std::span<const float> row, const RowIndex& index, size_t count,
                 std::vector<Candidate>& found) {
  if (index.greatest.size() < 2 * count) return false;
  std::vector<float> bounds = index.greatest;
  const auto bound = bounds.begin() + static_cast<ptrdiff_t>(count) - 1;
  std::nth_element(bounds.begin(), bound, bounds.end(), std::greater<>());
  const size_t too_many = 4 * count;
  found.clear();
  index.for_each_block<true>(
      0, row.size(), [&] { return *bound; },
      [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end && found.size() < too_many; ++i) {
          if (row[i] >= *bound) found.push_back({static_cast<uint32_t>(i), row[i], 0.0f});
        }
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
  const auto candidate = [&](size_t i) {
    return Candidate{static_cast<uint32_t>(i), row[i], 0.0f};
  };
  found.clear();
  for (size_t i = 0; i < count; ++i) found.push_back(candidate(i));
  ReferenceHeap heap(reference, std::span(found),
                     [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  const auto look_at = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (row[i] > heap.greatest().logit) heap.take(candidate(i));
    }
  };
  index.for_each_block<false>(
      count, row.size(), [&] { return heap.greatest().logit; },
      [&](size_t begin, size_t end) {
        size_t i = begin;
        for (; i + group <= end; i += group) {
          if (any_above(&row[i], heap.greatest().logit)) look_at(i, i + group);
        }
        look_at(i, end);
      });
  heap.sort();
}

void all_from(std::span<const float> row, const RowIndex& index, float least,
              std::vector<Candidate>& found) {
  found.clear();
  index.for_each_block<true>(
      0, row.size(), [&] { return least; },
      [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
          if (row[i] >= least) found.push_back({static_cast<uint32_t>(i), row[i], 0.0f});
        }
      });
}

}  // namespace mlx_sampling

#include "core/row_scan.h"

#include <algorithm>
#include <functional>

namespace mlx_sampling {

void running_greatest(std::span<const float> row, const RowIndex& index, size_t count,
                      std::vector<Candidate>& found) {
  found.clear();
  for (size_t i = 0; i < count; ++i) found.push_back({static_cast<uint32_t>(i), row[i], 0.0f});
  std::vector<float> heap(row.begin(), row.begin() + static_cast<ptrdiff_t>(count));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  index.for_each_block<false>(
      count, row.size(), [&] { return heap.front(); },
      [&](size_t begin, size_t end) {
        float floor = heap.front();
        for (size_t i = begin; i < end; ++i) {
          if (!(row[i] > floor)) continue;
          found.push_back({static_cast<uint32_t>(i), row[i], 0.0f});
          std::pop_heap(heap.begin(), heap.end(), std::greater<>());
          heap.back() = row[i];
          std::push_heap(heap.begin(), heap.end(), std::greater<>());
          floor = heap.front();
        }
      });
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

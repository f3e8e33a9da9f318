#include "core/samplers/top_k.h"

#include <algorithm>

#include "core/candidate_order.h"
#include "core/fast_paths.h"
#include "core/row_scan.h"

namespace mlx_sampling {

void TopK::apply(Candidates& candidates, RequestState& state) const {
  if (k_ <= 0) return;
  const size_t size = candidates.data.size();
  const size_t count = static_cast<uint64_t>(k_) < size ? static_cast<size_t>(k_) : size;
  if (candidates.sorted) {
    candidates.data.resize(count);
  } else {
    keep_greatest(candidates, count, state.reference());
  }
}

void TopK::apply_row(std::span<const float> row, Candidates& candidates,
                     RequestState& state) const {
  const bool few = k_ > 0 && static_cast<uint64_t>(k_) <= std::min(greatest_heap, row.size());
  if (!few || !fast_paths()) {
    Stage::apply_row(row, candidates, state);
    return;
  }
  find_greatest(row, state.row_index(), static_cast<size_t>(k_), state.reference(),
                candidates.data);
  candidates.selected = -1;
  candidates.sorted = true;
}

}  // namespace mlx_sampling

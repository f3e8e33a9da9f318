#include "core/samplers/top_k.h"

#include <algorithm>

#include "core/candidate_order.h"

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

}  // namespace mlx_sampling

#include "core/samplers/greedy.h"

#include "core/argmax.h"

namespace mlx_sampling {

void Greedy::apply(Candidates& candidates, RequestState&) const {
  const auto& data = candidates.data;
  if (data.empty()) {
    candidates.selected = -1;
    return;
  }
  size_t best = 0;
  for (size_t i = 1; i < data.size(); ++i) {
    if (data[i].logit > data[best].logit) best = i;
  }
  candidates.selected = static_cast<int64_t>(best);
}

void Greedy::apply_row(std::span<const float> row, Candidates& candidates, RequestState&) const {
  const auto* words = reinterpret_cast<const uint32_t*>(row.data());
  const uint32_t id = argmax_row<Float32Bits>({words, 1, row.size()});
  candidates.data.assign(1, {id, row[id], 0.0f});
  candidates.selected = 0;
  candidates.sorted = true;
}

}  // namespace mlx_sampling

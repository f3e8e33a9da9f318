#include "core/samplers/greedy.h"

#include <algorithm>

#include "core/fast_paths.h"

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

void Greedy::weigh(Candidates& candidates, RequestState& state) const {
  apply(candidates, state);
  if (candidates.selected < 0) return;
  Candidate winner = candidates.data[static_cast<size_t>(candidates.selected)];
  winner.p = 1.0f;
  candidates.data.assign(1, winner);
  candidates.selected = 0;
}

void Greedy::apply_row(std::span<const float> row, Candidates& candidates,
                       RequestState& state) const {
  if (!fast_paths()) {
    Stage::apply_row(row, candidates, state);
    return;
  }
  const auto& greatest = state.row_index().greatest;
  const auto block = std::max_element(greatest.begin(), greatest.end());
  const auto first = row.begin() + (block - greatest.begin()) * static_cast<ptrdiff_t>(block_width);
  const auto id = static_cast<uint32_t>(std::find(first, row.end(), *block) - row.begin());
  candidates.data.assign(1, {id, row[id], 0.0f});
  candidates.selected = 0;
  candidates.sorted = true;
}

}  // namespace mlx_sampling

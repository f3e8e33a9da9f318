// Keeps the k greatest logits.
#pragma once

#include <cstdint>

#include "core/samplers/stage.h"

namespace mlx_sampling {

// Sorts what it keeps, all candidates where k is greater than their number. Off at k <= 0.
class TopK : public Stage {
 public:
  explicit TopK(int64_t k) : k_(k) {}

  std::string_view name() const override { return "top_k"; }
  bool keeps_places(bool sorted) const override { return sorted; }
  void apply(Candidates& candidates, RequestState& state) const override;
  void apply_row(std::span<const float> row, Candidates& candidates,
                 RequestState& state) const override;

 private:
  int64_t k_;
};

}  // namespace mlx_sampling

// Picks the greatest logit: the first of them where there are several.
#pragma once

#include "core/samplers/stage.h"

namespace mlx_sampling {

// Draws nothing. The policy of temperature 0 is a chain that ends with this stage.
class Greedy : public Stage {
 public:
  std::string_view name() const override { return "greedy"; }
  bool keeps_places(bool) const override { return true; }
  bool selects() const override { return true; }
  void apply(Candidates& candidates, RequestState& state) const override;

  // Leaves the winner as the only candidate, with a p of 1.
  void weigh(Candidates& candidates, RequestState& state) const override;

  // Leaves the winner as the only candidate.
  void apply_row(std::span<const float> row, Candidates& candidates,
                 RequestState& state) const override;
};

}  // namespace mlx_sampling

// Draws a candidate from the softmax of the logits.
#pragma once

#include "core/samplers/stage.h"

namespace mlx_sampling {

// Two words of the distribution stream, also for a single candidate; none where there is no
// candidate, and then nothing is selected. Writes the probabilities.
class Dist : public Stage {
 public:
  std::string_view name() const override { return "dist"; }
  bool keeps_places(bool) const override { return true; }
  bool selects() const override { return true; }
  void apply(Candidates& candidates, RequestState& state) const override;
  void weigh(Candidates& candidates, RequestState& state) const override;
};

}  // namespace mlx_sampling

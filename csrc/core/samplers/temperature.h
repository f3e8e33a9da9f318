// Divides every logit by a temperature.
#pragma once

#include "core/samplers/stage.h"

namespace mlx_sampling {

// At 0 and below, the first maximum keeps its logit and the others become -inf.
void divide_logits(Candidates& candidates, float temperature);

// At temperature 0 a stage after it still draws, as llama.cpp has it: a policy that draws nothing
// is Greedy.
class Temperature : public Stage {
 public:
  // Throws std::invalid_argument unless `temperature` is finite and neither overflows nor becomes 0
  // as a float32.
  explicit Temperature(double temperature);

  std::string_view name() const override { return "temperature"; }
  bool keeps_places(bool) const override { return true; }
  void apply(Candidates& candidates, RequestState& state) const override;
  void apply_row(std::span<const float> row, Candidates& candidates,
                 RequestState& state) const override;

 private:
  float temperature_;
};

}  // namespace mlx_sampling

// Divides every logit by a temperature.
#pragma once

#include "core/samplers/sampler.h"

namespace mlx_sampling {

// At 0 the first maximum keeps its logit and the others become -inf, as llama.cpp has it: a stage
// after it still draws. A policy that draws nothing is Greedy.
class Temperature : public Sampler {
 public:
  // Throws std::invalid_argument unless `temperature` is finite, >= 0, and neither overflows nor
  // becomes 0 as a float32.
  explicit Temperature(double temperature);

  std::string_view name() const override { return "temperature"; }
  void apply(Candidates& candidates, RequestState& state) const override;

 private:
  float temperature_;
};

}  // namespace mlx_sampling

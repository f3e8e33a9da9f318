// Divides every logit by a temperature that follows the entropy of the candidates.
#pragma once

#include "core/samplers/stage.h"

namespace mlx_sampling {

// From temperature - range (not below 0) where one candidate has it all, to temperature + range
// where all are equal, along the normalised entropy to the power of `exponent`. Sorts, writes p.
// Does nothing for a single candidate. A range <= 0 makes it Temperature.
class DynamicTemperature : public Stage {
 public:
  // Throws std::invalid_argument for a temperature that Temperature would refuse, and for a range
  // or exponent that is no finite float32.
  DynamicTemperature(double temperature, double range, double exponent);

  std::string_view name() const override { return "dynamic_temperature"; }
  void apply(Candidates& candidates, RequestState& state) const override;

 private:
  float temperature_;
  float range_;
  float exponent_;
};

}  // namespace mlx_sampling

// Makes tokens of the recent history less likely.
#pragma once

#include "core/samplers/stage.h"

namespace mlx_sampling {

struct PenaltyOptions {
  int32_t last_n = 64;   // tokens looked back on; 0 and below = off
  double repeat = 1.0;   // divides a positive logit, multiplies another; 1 = off
  double freq = 0.0;     // subtracted once per occurrence; 0 = off
  double present = 0.0;  // subtracted once where there is any; 0 = off
};

// The logits are no longer known to be sorted afterwards, also where nothing was recent, unless
// the options together are off.
class Penalties : public Stage {
 public:
  // Throws std::invalid_argument unless the values are finite and `repeat` is positive.
  explicit Penalties(const PenaltyOptions& options);

  std::string_view name() const override { return "penalties"; }
  void apply(Candidates& candidates, RequestState& state) const override;

 private:
  size_t window_;  // 0 = off
  float repeat_;
  float freq_;
  float present_;
};

}  // namespace mlx_sampling

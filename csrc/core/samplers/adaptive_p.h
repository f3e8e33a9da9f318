// Picks tokens whose probability is near a target, over the request as a whole.
#pragma once

#include "core/samplers/stage.h"

namespace mlx_sampling {

// Replaces each logit by one that falls with the distance of its p from the target, which is
// corrected by what the accepted tokens had: their p in a sum that decays. The sum moves when the
// picked token is accepted; any other token forgets the pick. Draws from the adaptive stream, as
// Mt19937::discrete does. A target below 0 leaves the logits alone, and only draws.
class AdaptiveP : public Stage {
 public:
  // `target` counts as at most 1, `decay` as 0 to 0.99. Throws std::invalid_argument where they are
  // no finite float32.
  AdaptiveP(double target, double decay);

  std::string_view name() const override { return "adaptive_p"; }
  bool selects() const override { return true; }
  bool once() const override { return true; }
  void apply(Candidates& candidates, RequestState& state) const override;
  void weigh(Candidates& candidates, RequestState& state) const override;
  void record_pick(const Candidates& candidates, size_t picked, RequestState& state) const override;
  void accept(uint32_t token, RequestState& state) const override;

 private:
  AdaptiveAverage start() const;
  float corrected_target(const AdaptiveAverage& average) const;

  float target_;
  float decay_;
};

}  // namespace mlx_sampling

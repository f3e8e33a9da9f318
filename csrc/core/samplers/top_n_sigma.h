// Masks logits that are more than n standard deviations below the greatest one (Tang et al., 2024,
// "Top-nsigma: Not All Logits Are You Need").
#pragma once

#include "core/samplers/stage.h"

namespace mlx_sampling {

// Mean and deviation are those of the logits that are no masks. The candidates stay, with -inf.
// Off at n <= 0.
class TopNSigma : public Stage {
 public:
  // Throws std::invalid_argument for an n that is no finite float32.
  explicit TopNSigma(double n);

  std::string_view name() const override { return "top_n_sigma"; }
  void apply(Candidates& candidates, RequestState& state) const override;

 private:
  float n_;
};

}  // namespace mlx_sampling

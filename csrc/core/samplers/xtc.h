// Drops the most probable candidates now and then ("exclude top choices").
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/samplers/stage.h"

namespace mlx_sampling {

// With `probability`, of the leading candidates whose p is at least `threshold` only the last one
// stays, unless fewer than `min_keep` would. Draws one word of the xtc stream where it is on and
// there are two candidates; sorts and writes p only where the draw hits. Off at probability <= 0
// and at threshold > 0.5.
class Xtc : public Stage {
 public:
  // Throws std::invalid_argument for numbers that are no finite float32, and a negative min_keep.
  Xtc(double probability, double threshold, int64_t min_keep = 1);

  std::string_view name() const override { return "xtc"; }
  bool once() const override { return true; }
  bool draws_first() const override { return true; }
  void apply(Candidates& candidates, RequestState& state) const override;

 private:
  float probability_;
  float threshold_;
  size_t min_keep_;
};

}  // namespace mlx_sampling

// Keeps candidates whose probability is at least a share of the greatest one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/samplers/stage.h"

namespace mlx_sampling {

// Compares logits with the greatest + log(p). Candidates that are not sorted keep their order and
// are not marked as sorted, unless fewer than `min_keep` pass: then they are sorted first. At least
// one stays. Off at p <= 0.
class MinP : public Stage {
 public:
  // Throws std::invalid_argument for a p that is no finite float32 and a negative min_keep.
  explicit MinP(double p, int64_t min_keep = 1);

  std::string_view name() const override { return "min_p"; }
  bool keeps_places(bool sorted) const override { return sorted; }
  void apply(Candidates& candidates, RequestState& state) const override;
  void apply_row(std::span<const float> row, Candidates& candidates,
                 RequestState& state) const override;

 private:
  bool keep_passing(Candidates& candidates) const;
  void keep_passing_of_sorted(Candidates& candidates) const;

  float p_;
  size_t min_keep_;
};

}  // namespace mlx_sampling

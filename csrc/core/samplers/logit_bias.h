// Adds a bias to the logits of some tokens.
#pragma once

#include <vector>

#include "core/samplers/stage.h"

namespace mlx_sampling {

struct LogitBiasEntry {
  uint32_t id;
  float bias;  // finite, or -inf to forbid the token
};

// Repeated ids: all apply to a candidate that still stands at its id's place, the first one to a
// candidate that was moved, as llama.cpp has it. Ids that are no longer candidates are passed over.
class LogitBias : public Stage {
 public:
  // Throws std::invalid_argument for a bias of NaN or +inf.
  explicit LogitBias(std::vector<LogitBiasEntry> entries);

  std::string_view name() const override { return "logit_bias"; }
  void apply(Candidates& candidates, RequestState& state) const override;

  // Throws std::invalid_argument for an id outside the row.
  void apply_row(std::span<const float> row, Candidates& candidates,
                 RequestState& state) const override;

 private:
  std::vector<LogitBiasEntry> entries_;
};

}  // namespace mlx_sampling

// Keeps the most probable candidates that together reach a probability.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/keyed.h"
#include "core/samplers/stage.h"

namespace mlx_sampling {

// Writes p, sorts, and keeps candidates until their running sum is at least `p` and they are at
// least `min_keep`. Off at p >= 1; the most probable one alone at p <= 0.
class TopP : public Stage {
 public:
  // Throws std::invalid_argument for a p that is no finite float32 and a negative min_keep.
  explicit TopP(double p, int64_t min_keep = 1);

  std::string_view name() const override { return "top_p"; }
  bool leaves_sorted() const override { return true; }
  bool keeps_places(bool sorted) const override { return sorted; }
  void apply(Candidates& candidates, RequestState& state) const override;
  void apply_row(std::span<const float> row, Candidates& candidates,
                 RequestState& state) const override;
  void apply_row_open(std::span<const float> row, Candidates& candidates,
                      RequestState& state) const override;
  uint32_t id_at(size_t place, const RequestState& state) const override;

 private:
  size_t kept(const std::vector<Candidate>& greatest) const;
  bool keep_lazily(std::span<const float> logits, const uint32_t* ids, Candidates& candidates,
                   Reference reference) const;

  bool take_ranked(std::span<const Keyed> ranked, float greatest, float exps_sum,
                   std::vector<Candidate>& kept) const;
  // As apply_row_open does it. False, with nothing changed, where that cannot be done.
  bool keep_open(std::span<const float> row, const RowIndex& index, Candidates& candidates,
                 Reference reference) const;

  float p_;
  size_t min_keep_;
};

}  // namespace mlx_sampling

// Keeps the candidates whose surprise is nearest to the expected one (Meister et al., 2022,
// "Locally Typical Sampling").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/keyed.h"
#include "core/samplers/stage.h"

namespace mlx_sampling {

// Writes p and keeps candidates, most typical first and not marked as sorted, until their running
// sum exceeds `p` and they are at least `min_keep`. Off at p >= 1. Where any p is 0 (a mask, or a
// logit some 104 below the greatest), the entropy is NaN and none is more typical than another:
// what is kept then follows from the reference's sort alone, as in llama.cpp.
class TypicalP : public Stage {
 public:
  // Throws std::invalid_argument for a p that is no finite float32 and a negative min_keep.
  explicit TypicalP(double p, int64_t min_keep = 1);

  std::string_view name() const override { return "typical_p"; }
  void apply(Candidates& candidates, RequestState& state) const override;
  void apply_row(std::span<const float> row, Candidates& candidates,
                 RequestState& state) const override;
  void apply_row_open(std::span<const float> row, Candidates& candidates,
                      RequestState& state) const override;
  uint32_t id_at(size_t place, const RequestState& state) const override;

 private:
  enum class Outcome { kept, front_too_short, not_possible };

  // As apply_row_open does it. False where that cannot be done.
  bool keep_open(std::span<const float> row, const RowIndex& index, Candidates& candidates) const;
  Outcome keep_of_front(std::span<const float> row, float greatest, size_t buckets,
                        std::span<const Keyed> front, Candidates& candidates) const;
  size_t count_kept(std::span<const Keyed> front) const;

  // The same, sorting no more than is needed. False, with nothing changed, where that cannot be
  // done.
  bool keep_lazily(std::span<const float> logits, const uint32_t* ids, Candidates& candidates,
                   Reference reference) const;

  float p_;
  size_t min_keep_;
};

}  // namespace mlx_sampling

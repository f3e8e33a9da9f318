// argmax as an MLX primitive.
#pragma once

#include "ops/selection.h"

namespace mlx_sampling {

// uint32 [...]: first maximum of each row of `logits` [..., V]; see core/argmax.h.
mlx::core::array argmax(const mlx::core::array& logits, mlx::core::StreamOrDevice s = {});

class Argmax : public Selection {
 public:
  using Selection::Selection;

  void eval_cpu(const std::vector<mlx::core::array>& inputs, mlx::core::array& out) override;
  void eval_gpu(const std::vector<mlx::core::array>& inputs, mlx::core::array& out) override;
  std::pair<std::vector<mlx::core::array>, std::vector<int>> vmap(
      const std::vector<mlx::core::array>& inputs, const std::vector<int>& axes) override;
  const char* name() const override { return "argmax"; }
  bool is_equivalent(const mlx::core::Primitive&) const override { return true; }

 protected:
  void check(const std::vector<mlx::core::array>& inputs) const override;
};

}  // namespace mlx_sampling

// greedy_argmax as an MLX primitive.
#pragma once

#include <optional>
#include <vector>

#include "core/greedy_argmax.h"
#include "ops/selection.h"

namespace mlx_sampling {

// uint32 [...]: the fail-closed greedy pick of each row of `logits` [..., V]; see
// core/greedy_argmax.h. `excluded` ids hold for every row; `allowed` is a packed uint32 bitmask,
// [ceil(V / 32)] for all rows or [..., ceil(V / 32)] with one row per row of logits.
mlx::core::array greedy_argmax(const mlx::core::array& logits, const std::vector<int64_t>& excluded,
                               const std::optional<mlx::core::array>& allowed, NegInf neg_inf,
                               mlx::core::StreamOrDevice s = {});

class GreedyArgmax : public Selection {
 public:
  GreedyArgmax(mlx::core::Stream stream, GreedyRules rules);

  void eval_cpu(const std::vector<mlx::core::array>& inputs, mlx::core::array& out) override;
  void eval_gpu(const std::vector<mlx::core::array>& inputs, mlx::core::array& out) override;
  std::pair<std::vector<mlx::core::array>, std::vector<int>> vmap(
      const std::vector<mlx::core::array>& inputs, const std::vector<int>& axes) override;
  const char* name() const override { return "greedy_argmax"; }
  bool is_equivalent(const mlx::core::Primitive& other) const override;

 protected:
  void check(const std::vector<mlx::core::array>& inputs) const override;

 private:
  const GreedyRules rules_;
};

}  // namespace mlx_sampling

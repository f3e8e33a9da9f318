// What argmax and greedy_argmax have in common as MLX primitives: [..., V] in, uint32 [...] out, no
// gradient, and a two-phase Metal dispatch.
#pragma once

#include <functional>

#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace mlx::core::metal {
class CommandEncoder;
}

namespace mlx_sampling {

class Selection : public mlx::core::UnaryPrimitive {
 public:
  using UnaryPrimitive::UnaryPrimitive;

  std::vector<mlx::core::array> jvp(const std::vector<mlx::core::array>& primals,
                                    const std::vector<mlx::core::array>& tangents,
                                    const std::vector<int>& argnums) override;
  std::vector<mlx::core::array> vjp(const std::vector<mlx::core::array>& primals,
                                    const std::vector<mlx::core::array>& cotangents,
                                    const std::vector<int>& argnums,
                                    const std::vector<mlx::core::array>& outputs) override;
  // A compiled graph without fixed shapes meets new inputs here first: they are checked as the op
  // does.
  std::vector<mlx::core::Shape> output_shapes(const std::vector<mlx::core::array>& inputs) override;

 protected:
  // Throws std::invalid_argument unless the op would take these inputs.
  virtual void check(const std::vector<mlx::core::array>& inputs) const = 0;
};

// The stream of a selection op; throws where its device has no kernel here.
mlx::core::Stream selection_stream(const char* op, mlx::core::StreamOrDevice s);

// One embedded Metal source with kernels <stem>_phase1_<dtype> and selection_phase2.
struct MetalSource {
  const char* stem;
  const char* library;
  const char* text;
};

// Encodes both phases on the GPU. `bind` sets phase 1's buffers from index 6 on.
void eval_two_phase(const mlx::core::Stream& stream, const MetalSource& source,
                    const mlx::core::array& logits, mlx::core::array& out,
                    const std::function<void(mlx::core::metal::CommandEncoder&)>& bind);

// Sets buffer `index` to the array's data from its least touched address on, and the three buffers
// from `layout_index` on to its Rows, row shape and row strides (metal/selection.h).
void bind_rows(mlx::core::metal::CommandEncoder& encoder, const mlx::core::array& a, int index,
               int layout_index);

}  // namespace mlx_sampling

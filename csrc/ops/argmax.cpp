#include "ops/argmax.h"

#include "core/argmax.h"
#include "metal_sources.h"
#include "mlx/allocator.h"
#include "mlx/backend/cpu/encoder.h"
#include "ops/row_layout.h"

namespace mx = mlx::core;

namespace mlx_sampling {

mx::array argmax(const mx::array& logits, mx::StreamOrDevice s) {
  check_logits("argmax", logits);
  return mx::array(rows_shape(logits), mx::uint32,
                   std::make_shared<Argmax>(selection_stream("argmax", s)), {logits});
}

void Argmax::check(const std::vector<mx::array>& inputs) const {
  check_logits("argmax", inputs[0]);
}

void Argmax::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  const mx::array& logits = inputs[0];
  out.set_data(mx::allocator::malloc(out.nbytes()));
  if (out.size() == 0) return;
  auto& encoder = mx::cpu::get_command_encoder(stream());
  encoder.set_input_array(logits);
  encoder.set_output_array(out);
  for_logit_format(logits.dtype(), [&](auto bits) {
    using Bits = decltype(bits);
    using Word = typename Bits::Word;
    encoder.dispatch(
        [layout = row_layout(logits), data = logits.data<Word>(), tokens = out.data<uint32_t>()] {
          for (int64_t row = 0; row < layout.rows; ++row) {
            tokens[row] = argmax_row<Bits>(
                {data + layout.offset(row), layout.stride, static_cast<size_t>(layout.width)});
          }
        });
  });
}

void Argmax::eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) {
  eval_two_phase(stream(), {"argmax", metal_sources::argmax_name, metal_sources::argmax}, inputs[0],
                 out, [](auto&) {});
}

std::pair<std::vector<mx::array>, std::vector<int>> Argmax::vmap(
    const std::vector<mx::array>& inputs, const std::vector<int>& axes) {
  return {{mlx_sampling::argmax(mx::moveaxis(inputs[0], axes[0], 0, stream()), stream())}, {0}};
}

}  // namespace mlx_sampling

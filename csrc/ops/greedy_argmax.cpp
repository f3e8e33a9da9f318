#include "ops/greedy_argmax.h"

#include <algorithm>

#include "core/error.h"
#include "metal_sources.h"
#include "mlx/allocator.h"
#include "mlx/backend/cpu/encoder.h"
#include "ops/row_layout.h"

#if defined(_METAL_)
#include "mlx/backend/metal/device.h"
#endif

namespace mx = mlx::core;

namespace mlx_sampling {
namespace {

void check_excluded(int64_t id, int64_t vocab) {
  if (id >= 0 && id < vocab) return;
  refuse("[greedy_argmax] Expected excluded ids in [0, ", vocab, "), got ", id, ".");
}

std::vector<uint32_t> sorted_ids(const std::vector<int64_t>& excluded, int64_t vocab) {
  std::vector<uint32_t> ids;
  ids.reserve(excluded.size());
  for (const int64_t id : excluded) {
    check_excluded(id, vocab);
    ids.push_back(static_cast<uint32_t>(id));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void check_allowed(const mx::array& allowed, const mx::array& logits) {
  if (allowed.dtype() != mx::uint32) {
    refuse("[greedy_argmax] Expected allowed of dtype uint32, got ", allowed.dtype(), ".");
  }
  mx::Shape per_row = logits.shape();
  per_row.back() = (logits.shape(-1) - 1) / 32 + 1;
  const mx::Shape shared{per_row.back()};
  if (allowed.shape() == shared || allowed.shape() == per_row) return;
  if (logits.ndim() == 1) {
    refuse("[greedy_argmax] Expected allowed of shape ", shared, ", got ", allowed.shape(), ".");
  }
  refuse("[greedy_argmax] Expected allowed of shape ", shared, " or ", per_row, ", got ",
         allowed.shape(), ".");
}

std::vector<mx::array> inputs_of(const mx::array& logits, const std::optional<mx::array>& allowed) {
  return allowed ? std::vector<mx::array>{logits, *allowed} : std::vector<mx::array>{logits};
}

#if defined(_METAL_)
// Lays out as GreedyArgs of metal/greedy_argmax.metal.
struct MetalGreedyArgs {
  uint32_t excluded_count;
  uint32_t has_allowed;
  int32_t least_legal;
};

int32_t least_legal_key(mx::Dtype dtype, NegInf neg_inf) {
  int32_t least = 0;
  for_logit_format(dtype, [&](auto bits) { least = -int32_t{decltype(bits)::inf_key}; });
  return neg_inf == NegInf::masked ? least : least + 1;
}
#endif

}  // namespace

mx::array greedy_argmax(const mx::array& logits, const std::vector<int64_t>& excluded,
                        const std::optional<mx::array>& allowed, NegInf neg_inf,
                        mx::StreamOrDevice s) {
  check_logits("greedy_argmax", logits);
  GreedyRules rules{sorted_ids(excluded, logits.shape(-1)), neg_inf};
  if (allowed) check_allowed(*allowed, logits);
  return mx::array(
      rows_shape(logits), mx::uint32,
      std::make_shared<GreedyArgmax>(selection_stream("greedy_argmax", s), std::move(rules)),
      inputs_of(logits, allowed));
}

GreedyArgmax::GreedyArgmax(mx::Stream stream, GreedyRules rules)
    : Selection(stream), rules_(std::move(rules)) {}

bool GreedyArgmax::is_equivalent(const mx::Primitive& other) const {
  return rules_ == static_cast<const GreedyArgmax&>(other).rules_;
}

void GreedyArgmax::check(const std::vector<mx::array>& inputs) const {
  check_logits("greedy_argmax", inputs[0]);
  if (!rules_.excluded.empty()) check_excluded(rules_.excluded.back(), inputs[0].shape(-1));
  if (inputs.size() > 1) check_allowed(inputs[1], inputs[0]);
}

void GreedyArgmax::eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) {
  const mx::array& logits = inputs[0];
  out.set_data(mx::allocator::malloc(out.nbytes()));
  if (out.size() == 0) return;
  auto& encoder = mx::cpu::get_command_encoder(stream());
  for (const auto& input : inputs) encoder.set_input_array(input);
  encoder.set_output_array(out);
  const RowLayout layout = row_layout(logits);
  const bool masked = inputs.size() > 1;
  const RowLayout mask_layout = masked ? row_layout(inputs[1]) : RowLayout{};
  const uint32_t* mask = masked ? inputs[1].data<uint32_t>() : nullptr;
  for_logit_format(logits.dtype(), [&](auto bits) {
    using Bits = decltype(bits);
    using Word = typename Bits::Word;
    encoder.dispatch([layout, mask_layout, mask, rules = rules_, data = logits.data<Word>(),
                      tokens = out.data<uint32_t>()] {
      for (int64_t row = 0; row < layout.rows; ++row) {
        AllowedRow allowed;
        if (mask != nullptr) allowed = {mask + mask_layout.offset(row), mask_layout.stride};
        tokens[row] = greedy_argmax_row<Bits>(
            {data + layout.offset(row), layout.stride, static_cast<size_t>(layout.width)}, rules,
            allowed);
      }
    });
  });
}

void GreedyArgmax::eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) {
  const auto bind = [&]([[maybe_unused]] mx::metal::CommandEncoder& encoder) {
#if defined(_METAL_)
    const MetalGreedyArgs args{static_cast<uint32_t>(rules_.excluded.size()),
                               inputs.size() > 1 ? 1u : 0u,
                               least_legal_key(inputs[0].dtype(), rules_.neg_inf)};
    encoder.set_bytes(args, 6);
    // Metal wants every buffer set: without ids or bitmask one word is bound that is not read.
    const std::vector<uint32_t> ids =
        rules_.excluded.empty() ? std::vector<uint32_t>{0} : rules_.excluded;
    mx::array excluded(ids.begin(), {static_cast<int>(ids.size())}, mx::uint32);
    encoder.add_temporary(excluded);
    encoder.set_input_array(excluded, 7);
    bind_rows(encoder, inputs.size() > 1 ? inputs[1] : excluded, 8, 9);
#endif
  };
  eval_two_phase(stream(),
                 {"greedy_argmax", metal_sources::greedy_argmax_name, metal_sources::greedy_argmax},
                 inputs[0], out, bind);
}

std::pair<std::vector<mx::array>, std::vector<int>> GreedyArgmax::vmap(
    const std::vector<mx::array>& inputs, const std::vector<int>& axes) {
  mx::array logits = inputs[0];
  if (axes[0] >= 0) {
    logits = mx::moveaxis(logits, axes[0], 0, stream());
  } else {
    mx::Shape shape = logits.shape();
    shape.insert(shape.begin(), inputs[1].shape(axes[1]));
    logits = mx::broadcast_to(logits, shape, stream());
  }
  std::optional<mx::array> allowed;
  if (inputs.size() > 1) {
    allowed = inputs[1];
    if (axes[1] >= 0) {
      // One bitmask per vmapped entry holds for all rows of that entry.
      allowed = mx::moveaxis(*allowed, axes[1], 0, stream());
      while (allowed->ndim() < logits.ndim()) {
        allowed = mx::expand_dims(*allowed, 1, stream());
      }
    }
    if (allowed->ndim() > 1) {
      mx::Shape per_row = logits.shape();
      per_row.back() = allowed->shape(-1);
      allowed = mx::broadcast_to(*allowed, per_row, stream());
    }
  }
  auto picks = std::make_shared<GreedyArgmax>(stream(), rules_);
  return {{mx::array(rows_shape(logits), mx::uint32, picks, inputs_of(logits, allowed))}, {0}};
}

}  // namespace mlx_sampling

#include "ops/host_row.h"

#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/row_chunks.h"
#include "ops/row_layout.h"

namespace mx = mlx::core;

namespace mlx_sampling {
namespace {

constexpr const char* op = "sample";

float widen(BFloat16Bits, uint16_t word) {
  return std::bit_cast<float>(static_cast<uint32_t>(word) << 16);
}

// Exact for every float16, without float32 denormals on the way: a thread may flush them to zero.
// The selections are of integers alone, so that the loop is vectorised.
float widen(Float16Bits, uint16_t word) {
  constexpr uint32_t rebias = 112u << 23;
  const uint32_t magnitude = word & 0x7FFFu;
  // A denormal is read as 2**-14 plus itself, and the 2**-14 taken off.
  const uint32_t offset = magnitude < 0x400u ? rebias + (1u << 23) : 0u;
  const uint32_t normal = magnitude < 0x7C00u ? rebias : 2 * rebias;
  const uint32_t shifted = (magnitude << 13) + (offset != 0 ? offset : normal);
  const float value = std::bit_cast<float>(shifted) - std::bit_cast<float>(offset);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | (word & 0x8000u) << 16);
}

template <typename Bits>
void widen_row(const RowView<typename Bits::Word>& row, float* destination) {
  for_each_chunk(row, [&](const typename Bits::Word* words, size_t begin, size_t count) {
    if constexpr (std::is_same_v<Bits, Float32Bits>) {
      std::memcpy(destination + begin, words, count * sizeof(float));
    } else {
      for (size_t i = 0; i < count; ++i) destination[begin + i] = widen(Bits{}, words[i]);
    }
  });
}

mx::array only_row(mx::array row) {
  check_logits(op, row);
  if (row.ndim() == 1 || (row.ndim() == 2 && row.shape(0) == 1)) return row;
  refuse("[", op, "] Expected logits of shape [V] or [1, V], got shape ", row.shape(), ".");
}

void check_batch(const mx::array& rows, size_t requests) {
  constexpr const char* batch_op = "sample_batch";
  check_logits(batch_op, rows);
  if (rows.ndim() == 2 && static_cast<size_t>(rows.shape(0)) == requests) return;
  refuse("[", batch_op, "] Expected logits of shape [B, V] with a row for each of ", requests,
         " samplers, got shape ", rows.shape(), ".");
}

}  // namespace

HostRows::HostRows(mx::array rows) : rows_(std::move(rows)) {
  rows_.eval();
  layout_ = row_layout(rows_);
}

void HostRows::refill(RequestState& state, size_t row) const {
  const std::span<float> destination = state.begin_row(static_cast<size_t>(layout_.width));
  const int64_t offset = layout_.offset(static_cast<int64_t>(row));
  for_logit_format(rows_.dtype(), [&]<typename Bits>(Bits) {
    widen_row<Bits>(
        {rows_.data<typename Bits::Word>() + offset, layout_.stride, destination.size()},
        destination.data());
  });
}

void refill_row(RequestState& state, mx::array row) {
  HostRows(only_row(std::move(row))).refill(state, 0);
}

Step step(const Chain& chain, RequestState& state, mx::array row) {
  const auto started = std::chrono::steady_clock::now();
  const HostRows rows(only_row(std::move(row)));
  const std::chrono::nanoseconds forward = std::chrono::steady_clock::now() - started;
  Step result = step(chain, state, [&] { rows.refill(state, 0); });
  result.timings.forward = forward.count();
  return result;
}

DraftStep draft_step(const Chain& chain, RequestState& state, mx::array rows, size_t row,
                     const std::optional<Draft>& draft) {
  check_logits("draft_step", rows);
  if (rows.ndim() != 2 || row >= static_cast<size_t>(rows.shape(0))) {
    refuse("[draft_step] Expected logits [B, V] with a row ", row, ", got shape ", rows.shape(),
           ".");
  }
  const auto started = std::chrono::steady_clock::now();
  const HostRows host(std::move(rows));
  const std::chrono::nanoseconds forward = std::chrono::steady_clock::now() - started;
  DraftStep result = draft_step(chain, state, [&] { host.refill(state, row); }, draft);
  result.step.timings.forward = forward.count();
  return result;
}

std::vector<StepResult> step_batch(std::span<const Request> requests, mx::array rows,
                                   size_t threads) {
  check_batch(rows, requests.size());
  const HostRows host(std::move(rows));
  return step_batch(requests, [&](size_t i) { host.refill(*requests[i].state, i); }, threads);
}

}  // namespace mlx_sampling

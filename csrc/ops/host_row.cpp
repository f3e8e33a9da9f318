#include "ops/host_row.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

void check_row(const mx::array& row) {
  check_logits(op, row);
  if (row.ndim() == 1 || (row.ndim() == 2 && row.shape(0) == 1)) return;
  refuse("[", op, "] Expected logits of shape [V] or [1, V], got shape ", row.shape(), ".");
}

}  // namespace

void refill_row(RequestState& state, mx::array row) {
  check_row(row);
  row.eval();
  const std::span<float> destination = state.begin_row(row.shape(-1));
  const int64_t stride = row_layout(row).stride;
  for_logit_format(row.dtype(), [&]<typename Bits>(Bits) {
    widen_row<Bits>({row.data<typename Bits::Word>(), stride, destination.size()},
                    destination.data());
  });
}

}  // namespace mlx_sampling

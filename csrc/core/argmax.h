// First maximum of one row of logits, on the host.
#pragma once

#include <cstdint>

#include "core/logit_bits.h"
#include "core/row_chunks.h"

namespace mlx_sampling {

// Index that a scan from (-inf, index 0) ends with when it moves on only at a strictly greater
// logit: the lowest index among the maxima; NaN never wins; 0 where nothing is greater than -inf.
template <typename Bits>
uint32_t argmax_row(const RowView<typename Bits::Word>& row);

extern template uint32_t argmax_row<Float32Bits>(const RowView<uint32_t>&);
extern template uint32_t argmax_row<Float16Bits>(const RowView<uint16_t>&);
extern template uint32_t argmax_row<BFloat16Bits>(const RowView<uint16_t>&);

}  // namespace mlx_sampling

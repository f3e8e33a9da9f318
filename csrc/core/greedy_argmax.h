// The fail-closed greedy pick of one row of logits, on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "core/logit_bits.h"
#include "core/row_chunks.h"

namespace mlx_sampling {

// What may not be picked from a row, and what a -inf in it means.
struct GreedyRules {
  std::vector<uint32_t> excluded;  // ascending, unique
  NegInf neg_inf = NegInf::error;

  bool operator==(const GreedyRules&) const = default;
};

// One row's share of a packed bitmask: bit `i % 32` of word `i / 32` set = token i is allowed.
// `words` null = every token is allowed.
struct AllowedRow {
  const uint32_t* words = nullptr;
  int64_t stride = 1;

  uint32_t word(size_t w) const { return words[static_cast<int64_t>(w) * stride]; }
  bool allows(size_t token) const {
    return words == nullptr || ((word(token / 32) >> (token % 32)) & 1u) != 0;
  }
};

// Lowest index among the greatest eligible logits; `no_token` where a logit is nonfinite (looking
// at every raw logit, eligible or not) or where no token is eligible. A -inf is nonfinite under
// NegInf::error and never eligible.
template <typename Bits>
uint32_t greedy_argmax_row(const RowView<typename Bits::Word>& row, const GreedyRules& rules,
                           const AllowedRow& allowed);

extern template uint32_t greedy_argmax_row<Float32Bits>(const RowView<uint32_t>&,
                                                        const GreedyRules&, const AllowedRow&);
extern template uint32_t greedy_argmax_row<Float16Bits>(const RowView<uint16_t>&,
                                                        const GreedyRules&, const AllowedRow&);
extern template uint32_t greedy_argmax_row<BFloat16Bits>(const RowView<uint16_t>&,
                                                         const GreedyRules&, const AllowedRow&);

}  // namespace mlx_sampling

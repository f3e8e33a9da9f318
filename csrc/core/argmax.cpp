#include "core/argmax.h"

#include "core/key_range.h"

namespace mlx_sampling {

template <typename Bits>
uint32_t argmax_row(const RowView<typename Bits::Word>& row) {
  using Key = typename Bits::Key;
  Key best = -Bits::inf_key;
  size_t best_begin = row.width;
  for_each_chunk(row, [&](const typename Bits::Word* words, size_t begin, size_t count) {
    Key greatest = key_range(words, count).greatest;
    if (greatest > Bits::inf_key) greatest = greatest_key_up_to(words, count, Bits::inf_key);
    if (greatest > best) {
      best = greatest;
      best_begin = begin;
    }
  });
  for (size_t i = best_begin; i < row.width; ++i) {
    if (Bits::key(row[i]) == best) return static_cast<uint32_t>(i);
  }
  return 0;
}

template uint32_t argmax_row<Float32Bits>(const RowView<uint32_t>&);
template uint32_t argmax_row<Float16Bits>(const RowView<uint16_t>&);
template uint32_t argmax_row<BFloat16Bits>(const RowView<uint16_t>&);

}  // namespace mlx_sampling

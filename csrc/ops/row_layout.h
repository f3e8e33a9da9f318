// Where the rows of a [..., V] array lie in memory, for any strides.
#pragma once

#include <cstdint>
#include <vector>

#include "core/logit_bits.h"
#include "mlx/mlx.h"

namespace mlx_sampling {

// Row r starts at element `offset(r)` of the array's data; element i of a row lies i * `stride`
// further. Leading axes of size 1 are dropped and axes that lie evenly are merged, so a plain batch
// has one.
struct RowLayout {
  std::vector<int32_t> shape;    // leading axes; their product is `rows`
  std::vector<int64_t> strides;  // in elements, one per entry of `shape`
  int64_t rows = 1;
  int64_t width = 0;
  int64_t stride = 1;

  int64_t offset(int64_t row) const;

  // Least element offset that any row touches (0 or negative).
  int64_t least_offset() const;
};

RowLayout row_layout(const mlx::core::array& a);

// Shape of a [..., V] array's per-row result.
mlx::core::Shape rows_shape(const mlx::core::array& a);

// Throws std::invalid_argument ("[op] Expected ..., got ...") unless `logits` is [..., V] of a
// supported dtype with 0 < V < 2**31.
void check_logits(const char* op, const mlx::core::array& logits);

// Calls `run` with the LogitBits format of `dtype`, which check_logits let through.
template <typename Run>
void for_logit_format(mlx::core::Dtype dtype, Run&& run) {
  if (dtype == mlx::core::float32) {
    run(Float32Bits{});
  } else if (dtype == mlx::core::float16) {
    run(Float16Bits{});
  } else {
    run(BFloat16Bits{});
  }
}

}  // namespace mlx_sampling

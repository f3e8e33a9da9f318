#include "ops/row_layout.h"

#include <algorithm>

#include "core/error.h"

namespace mx = mlx::core;

namespace mlx_sampling {

int64_t RowLayout::offset(int64_t row) const {
  int64_t at = 0;
  for (size_t axis = shape.size(); axis-- > 0;) {
    at += (row % shape[axis]) * strides[axis];
    row /= shape[axis];
  }
  return at;
}

int64_t RowLayout::least_offset() const {
  int64_t least = std::min<int64_t>(0, (width - 1) * stride);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    least += std::min<int64_t>(0, (shape[axis] - 1) * strides[axis]);
  }
  return least;
}

RowLayout row_layout(const mx::array& a) {
  RowLayout layout;
  const int last = static_cast<int>(a.ndim()) - 1;
  layout.width = a.shape(last);
  layout.stride = layout.width == 1 ? 1 : a.strides()[last];
  for (int axis = 0; axis < last; ++axis) {
    const int32_t size = a.shape(axis);
    const int64_t stride = a.strides()[axis];
    layout.rows *= size;
    if (size == 1) continue;
    const bool fits = !layout.shape.empty() && int64_t{layout.shape.back()} * size <= INT32_MAX;
    if (fits && layout.strides.back() == stride * size) {
      layout.shape.back() *= size;
      layout.strides.back() = stride;
    } else {
      layout.shape.push_back(size);
      layout.strides.push_back(stride);
    }
  }
  return layout;
}

mx::Shape rows_shape(const mx::array& a) {
  return mx::Shape(a.shape().begin(), a.shape().end() - 1);
}

void check_logits(const char* op, const mx::array& logits) {
  if (logits.dtype() != mx::float32 && logits.dtype() != mx::float16 &&
      logits.dtype() != mx::bfloat16) {
    refuse("[", op, "] Expected logits of dtype float32, float16 or bfloat16, got ", logits.dtype(),
           ".");
  }
  if (logits.ndim() == 0) {
    refuse("[", op, "] Expected logits of shape [..., V], got a scalar.");
  }
  if (logits.shape(-1) == 0) {
    refuse("[", op, "] Expected logits of shape [..., V] with V > 0, got shape ", logits.shape(),
           ".");
  }
  static_assert(sizeof(mx::ShapeElem) == 4, "V < 2**31 holds because MLX's sizes are 32-bit");
}

}  // namespace mlx_sampling

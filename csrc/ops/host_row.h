// A finished row of a device array as host memory. Nothing else hands one out.
#pragma once

#include <cstddef>

#include "core/request_state.h"
#include "mlx/mlx.h"

namespace mlx_sampling {

// Writes a row, [V] or [1, V] of float32, float16 or bfloat16 and of any strides, widened to
// float32, to `destination`, which has room for `width` floats. Waits for the array's value. Throws
// std::invalid_argument on another dtype, shape or width, and whatever the evaluation throws;
// nothing is written then.
void copy_row(mlx::core::array row, float* destination, size_t width);

// Copies a row to where `state` retains it: `RequestState::finish_row()` is due after it. Where it
// throws, the state is as it was.
void refill_row(RequestState& state, const mlx::core::array& row);

}  // namespace mlx_sampling

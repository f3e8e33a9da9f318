// A finished row of a device array as host memory. Nothing else hands one out.
#pragma once

#include "core/request_state.h"
#include "mlx/mlx.h"

namespace mlx_sampling {

// Copies a row, [V] or [1, V] of float32, float16 or bfloat16 and of any strides, widened to
// float32, to where `state` retains it: `RequestState::finish_row()` is due after it. Waits for the
// array's value. Throws std::invalid_argument on another dtype, shape or width, and whatever the
// evaluation throws; the state is as it was then.
void refill_row(RequestState& state, mlx::core::array row);

}  // namespace mlx_sampling

// Finished rows of a device array as host memory. Nothing else hands one out.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/draft_step.h"
#include "core/request_state.h"
#include "core/step.h"
#include "mlx/mlx.h"
#include "ops/row_layout.h"

namespace mlx_sampling {

// The rows of a [V] or [B, V] array of float32, float16 or bfloat16, of any strides.
class HostRows {
 public:
  // Waits for the array's value; throws what its evaluation throws. check_logits() let it through.
  explicit HostRows(mlx::core::array rows);

  size_t count() const { return static_cast<size_t>(layout_.rows); }

  // Copies row `row`, widened to float32, to where `state` retains it: `finish_row()` is due after
  // it. From any thread. Throws std::invalid_argument on another width, leaving the state as it
  // was.
  void refill(RequestState& state, size_t row) const;

 private:
  mlx::core::array rows_;
  RowLayout layout_;
};

// The only row of an array [V] or [1, V]. Throws std::invalid_argument on another dtype, shape or
// width, and what the evaluation throws; the state is as it was then.
void refill_row(RequestState& state, mlx::core::array row);

// A step of one request, from a row [V] or [1, V].
Step step(const Chain& chain, RequestState& state, mlx::core::array row);

// A draft step of one request, from row `row` of rows [B, V]: see core/draft_step.h.
DraftStep draft_step(const Chain& chain, RequestState& state, mlx::core::array rows, size_t row,
                     const std::optional<Draft>& draft);

// A step of each request, from rows [B, V]: see core/step.h. Throws std::invalid_argument, before
// any step, on rows that are not one per request.
std::vector<StepResult> step_batch(std::span<const Request> requests, mlx::core::array rows,
                                   size_t threads);

}  // namespace mlx_sampling

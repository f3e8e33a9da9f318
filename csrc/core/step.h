// A step of a request, from a row to a token; and a step of many requests at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "core/chain.h"
#include "core/request_state.h"

namespace mlx_sampling {

// Nanoseconds.
struct StepTimings {
  int64_t forward = 0;      // waiting for the logits' value: who makes the row knows it
  int64_t readback = 0;     // copying and widening the row
  int64_t finite_scan = 0;  // checking it
  int64_t chain = 0;        // from the retained row to the token, without the grammar's part
  int64_t grammar = 0;      // checks and masks
};

struct Step {
  uint32_t token = no_token;
  StepTimings timings;
};

// Lets `fill` open a row in `state`, checks it and picks a token, while no other thread may use the
// request. Throws what the three throw, and ConcurrentUse; a failing step draws nothing.
Step step(const Chain& chain, RequestState& state, const std::function<void()>& fill);

struct Request {
  const Chain* chain;
  RequestState* state;
};

struct StepResult {
  Step step;
  std::exception_ptr error;  // null where there is a token
};

// One step of each request, row `i` for request `i`, on up to `threads` threads (at least the
// caller's). `fill(i)` opens row `i` in its state and is called from any of them. A step does not
// depend on the others: an error is that request's alone. Throws std::invalid_argument, before any
// step, where a request is there twice.
std::vector<StepResult> step_batch(std::span<const Request> requests,
                                   const std::function<void(size_t)>& fill, size_t threads);

}  // namespace mlx_sampling

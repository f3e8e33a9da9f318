#include "core/step.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "core/pick.h"

namespace mlx_sampling {
namespace {

int64_t nanoseconds_since(std::chrono::steady_clock::time_point& mark) {
  const auto now = std::chrono::steady_clock::now();
  const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(now - mark);
  mark = now;
  return passed.count();
}

void expect_distinct(std::span<const Request> requests) {
  std::vector<const RequestState*> states;
  for (const Request& request : requests) states.push_back(request.state);
  std::sort(states.begin(), states.end(), std::less<>());
  if (std::adjacent_find(states.begin(), states.end()) == states.end()) return;
  refuse("[sample_batch] Expected a sampler per row, got one of them twice.");
}

}  // namespace

Step step(const Chain& chain, RequestState& state, const std::function<void()>& fill) {
  const InUse use(state);
  Step result;
  auto mark = std::chrono::steady_clock::now();
  fill();
  result.timings.readback = nanoseconds_since(mark);
  state.finish_row();
  result.timings.finite_scan = nanoseconds_since(mark);
  const Pick picked = pick(chain, state);
  result.token = picked.token;
  result.timings.grammar = picked.grammar_ns;
  result.timings.chain = nanoseconds_since(mark) - picked.grammar_ns;
  return result;
}

std::vector<StepResult> step_batch(std::span<const Request> requests,
                                   const std::function<void(size_t)>& fill, size_t threads) {
  expect_distinct(requests);
  std::vector<StepResult> results(requests.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < requests.size(); i = next++) {
      try {
        results[i].step = step(*requests[i].chain, *requests[i].state, [&] { fill(i); });
      } catch (...) {
        results[i].error = std::current_exception();
      }
    }
  };
  const size_t wanted = std::min(threads, requests.size());
  std::vector<std::thread> helpers;
  helpers.reserve(wanted);
  try {
    while (helpers.size() + 1 < wanted) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // The threads there are do the work.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return results;
}

}  // namespace mlx_sampling

#include "core/pick.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace mlx_sampling {
namespace {

class Stopwatch {
 public:
  explicit Stopwatch(int64_t& total) : total_(total), begin_(Clock::now()) {}
  ~Stopwatch() {
    const auto passed = Clock::now() - begin_;
    total_ += std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  int64_t& total_;
  Clock::time_point begin_;
};

// While it lives, the chain sees the row with what the grammar refuses at -inf.
class MaskedRow {
 public:
  explicit MaskedRow(RequestState& state) : state_(state) {
    std::vector<uint32_t> allowed((state.row().size() + 31) / 32);
    state.grammar->fill_bitmask(allowed);
    any_ = std::any_of(allowed.begin(), allowed.end(), [](uint32_t word) { return word != 0; });
    state.mask_row(allowed);
  }
  ~MaskedRow() { state_.unmask_row(); }
  MaskedRow(const MaskedRow&) = delete;
  MaskedRow& operator=(const MaskedRow&) = delete;

  bool any() const { return any_; }

 private:
  RequestState& state_;
  bool any_;
};

uint32_t pick_masked(const Chain& chain, RequestState& state, int64_t& grammar_ns) {
  const MaskedRow masked = [&] {
    const Stopwatch stopwatch(grammar_ns);
    return MaskedRow(state);
  }();
  if (state.grammar->is_terminated()) {
    throw GrammarRefusal(
        "[grammar] Expected a text that goes on, but the text has ended: an end-of-generation token "
        "was accepted.");
  }
  if (!masked.any()) {
    throw GrammarRefusal(
        "[grammar] Expected a token that goes on with the text, but the grammar allows none here.");
  }
  try {
    return chain.sample(state);
  } catch (const NonfiniteLogits&) {
    throw GrammarRefusal(
        "[grammar] Expected a candidate among the tokens that the grammar allows here, but the "
        "logits and the stages leave none.");
  }
}

}  // namespace

Pick pick(const Chain& chain, RequestState& state) {
  Pick result{0, 0};
  const auto& grammar = state.grammar;
  if (!grammar || grammar->is_waiting()) {
    result.token = chain.sample(state);
    return result;
  }
  if (grammar->masks_first()) {
    result.token = pick_masked(chain, state, result.grammar_ns);
    return result;
  }
  const Draws before(state);
  result.token = chain.sample(state);
  const bool fits = [&] {
    const Stopwatch stopwatch(result.grammar_ns);
    return grammar->can_accept(result.token);
  }();
  if (fits) return result;
  try {
    result.token = pick_masked(chain, state, result.grammar_ns);
  } catch (...) {
    before.put_back(state);
    throw;
  }
  return result;
}

}  // namespace mlx_sampling

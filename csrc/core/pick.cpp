#include "core/pick.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"

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

// Lets `run` work on the masked row.
template <typename Run>
auto under_mask(RequestState& state, int64_t& grammar_ns, Run&& run) {
  const MaskedRow masked = [&] {
    const Stopwatch stopwatch(grammar_ns);
    return MaskedRow(state);
  }();
  if (state.grammar->is_terminated()) {
    throw GrammarRefusal(
        "[grammar] Expected a text that goes on, but the text has ended: an "
        "end-of-generation token was accepted.");
  }
  if (!masked.any()) {
    throw GrammarRefusal(
        "[grammar] Expected a token that goes on with the text, but the grammar allows none here.");
  }
  try {
    return run();
  } catch (const NonfiniteLogits&) {
    throw GrammarRefusal(
        "[grammar] Expected a candidate among the tokens that the grammar allows here, but the "
        "logits and the stages leave none.");
  }
}

uint32_t pick_masked(const Chain& chain, RequestState& state, int64_t& grammar_ns) {
  return under_mask(state, grammar_ns, [&] { return chain.sample(state); });
}

void weigh_masked(const Chain& chain, RequestState& state, int64_t& grammar_ns) {
  under_mask(state, grammar_ns, [&] { chain.weigh(state); });
}

// Takes what the grammar refuses out of the candidates; its part of the law.
float drop_refused(Candidates& candidates, const GrammarState& grammar) {
  double refused = 0;
  std::erase_if(candidates.data, [&](const Candidate& candidate) {
    if (candidate.p == 0 || grammar.can_accept(candidate.id)) return false;
    refused += candidate.p;
    return true;
  });
  return static_cast<float>(refused);
}

// `kept`, and `weight` times the candidates there are.
void add_law(Candidates& candidates, std::vector<Candidate> kept, float weight) {
  std::unordered_map<uint32_t, size_t> at;
  for (size_t i = 0; i < kept.size(); ++i) at.emplace(kept[i].id, i);
  for (const Candidate& candidate : candidates.data) {
    const auto [place, is_new] = at.emplace(candidate.id, kept.size());
    if (is_new) kept.push_back({candidate.id, 0.0f, 0.0f});
    kept[place->second].p += weight * candidate.p;
  }
  for (Candidate& candidate : kept) candidate.logit = std::log(candidate.p);
  candidates.data = std::move(kept);
  candidates.sorted = false;
}

void weigh_by_rejection(const Chain& chain, RequestState& state, int64_t& grammar_ns) {
  Candidates& candidates = state.candidates;
  chain.weigh(state);
  if (candidates.selected >= 0) {  // no draw
    const auto& picked = candidates.data[static_cast<size_t>(candidates.selected)];
    if (!state.grammar->can_accept(picked.id)) weigh_masked(chain, state, grammar_ns);
    return;
  }
  if (chain.stages().back()->name() != "dist") {
    refuse("[speculative] Expected grammar_first=True for a chain that ends with ",
           chain.stages().back()->name(), ": its state depends on whether a token was refused.");
  }
  const float refused = [&] {
    const Stopwatch stopwatch(grammar_ns);
    return drop_refused(candidates, *state.grammar);
  }();
  if (refused == 0) return;
  std::vector<Candidate> kept = candidates.data;
  weigh_masked(chain, state, grammar_ns);
  add_law(candidates, std::move(kept), refused);
}

}  // namespace

int64_t weigh(const Chain& chain, RequestState& state) {
  int64_t grammar_ns = 0;
  if (!state.grammar || state.grammar->is_waiting()) {
    chain.weigh(state);
  } else if (state.grammar->masks_first()) {
    weigh_masked(chain, state, grammar_ns);
  } else {
    weigh_by_rejection(chain, state, grammar_ns);
  }
  return grammar_ns;
}

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

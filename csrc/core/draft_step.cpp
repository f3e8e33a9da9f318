#include "core/draft_step.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/pick.h"

namespace mlx_sampling {
namespace {

using Clock = std::chrono::steady_clock;

int64_t nanoseconds(Clock::duration passed) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count();
}

// The candidates' columns; in the thread's memory until the next call.
TokenProbs law_of(const Candidates& candidates) {
  thread_local std::vector<float> probs;
  thread_local std::vector<uint32_t> ids;
  probs.clear();
  ids.clear();
  for (const Candidate& candidate : candidates.data) {
    probs.push_back(candidate.p);
    ids.push_back(candidate.id);
  }
  return {probs, ids};
}

void check(const Draft& draft, size_t vocab_size) {
  if (draft.token >= vocab_size) {
    refuse("[draft_token] Expected a token id in [0, ", vocab_size, "), got ", draft.token, ".");
  }
  check_probs("draft_probs", draft.probs, vocab_size);
}

struct Choice {
  uint32_t token;
  bool kept;
  int64_t grammar_ns = 0;
};

Choice choose(const TokenProbs& law, const std::optional<Draft>& draft, Mt19937& stream) {
  if (!draft) return {draw_token(law, stream), false};
  if (keeps(law, draft->probs, draft->token, stream)) return {draft->token, true};
  return {draw_replacement(law, draft->probs, stream), false};
}

Choice step_of_law(const Chain& chain, RequestState& state, const std::optional<Draft>& draft) {
  if (draft) check(*draft, state.row().size());
  const int64_t grammar_ns = weigh(chain, state);
  const Candidates& candidates = state.candidates;
  if (candidates.selected >= 0) {
    const uint32_t token = candidates.data[static_cast<size_t>(candidates.selected)].id;
    return {token, draft && draft->token == token, grammar_ns};
  }
  const TokenProbs law = law_of(candidates);
  check_sum("chain", law);
  Choice picked = choose(law, draft, state.streams.distribution);
  const auto at = std::find(law.ids.begin(), law.ids.end(), picked.token) - law.ids.begin();
  chain.record_pick(state, static_cast<size_t>(at));
  picked.grammar_ns = grammar_ns;
  return picked;
}

}  // namespace

DraftStep draft_step(const Chain& chain, RequestState& state, const std::function<void()>& fill,
                     const std::optional<Draft>& draft) {
  const InUse use(state);
  const auto started = Clock::now();
  fill();
  const auto filled = Clock::now();
  state.finish_row();
  const auto checked = Clock::now();
  const Choice picked = step_of_law(chain, state, draft);
  const auto done = Clock::now();
  return {{picked.token,
           {.readback = nanoseconds(filled - started),
            .finite_scan = nanoseconds(checked - filled),
            .chain = nanoseconds(done - checked) - picked.grammar_ns,
            .grammar = picked.grammar_ns}},
          picked.kept};
}

}  // namespace mlx_sampling

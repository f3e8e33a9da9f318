#include "core/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace mlx_sampling {
namespace {

constexpr double negative_infinity = -std::numeric_limits<double>::infinity();

// Tokens that can come, with their logits.
std::vector<TokenLogprob> logits_of(const Chain& chain, RequestState& state, LogprobKind kind) {
  if (!state.has_row()) {
    refuse("[logprobs] Expected a row of logits, got none: sample() first.");
  }
  std::vector<TokenLogprob> tokens;
  const auto add = [&](uint32_t id, double logit) {
    if (logit > negative_infinity) tokens.push_back({id, logit});
  };
  if (kind == LogprobKind::raw) {
    const auto row = state.row();
    for (size_t i = 0; i < row.size(); ++i) add(static_cast<uint32_t>(i), row[i]);
    return tokens;
  }
  place_candidates(state);
  const Candidates& candidates = state.candidates;
  if (candidates.selected < 0) {
    refuse(
        "[logprobs] Expected a step that gave a token: the last one failed, and left no processed "
        "probabilities.");
  }
  if (chain.stages().back()->name() == "greedy") {
    tokens.push_back({candidates.data[candidates.selected].id, 0});
    return tokens;
  }
  for (const Candidate& candidate : candidates.data) add(candidate.id, candidate.logit);
  return tokens;
}

std::vector<TokenLogprob> logprobs_of(const Chain& chain, RequestState& state, LogprobKind kind) {
  auto tokens = logits_of(chain, state, kind);
  double greatest = negative_infinity;
  for (const TokenLogprob& token : tokens) greatest = std::max(greatest, token.logprob);
  double sum = 0;
  for (const TokenLogprob& token : tokens) sum += std::exp(token.logprob - greatest);
  const double log_sum = std::log(sum);
  for (TokenLogprob& token : tokens) token.logprob = token.logprob - greatest - log_sum;
  return tokens;
}

}  // namespace

LogprobKind parse_logprob_kind(std::string_view name) {
  if (name == "raw") return LogprobKind::raw;
  if (name == "processed") return LogprobKind::processed;
  refuse("[kind] Expected \"raw\" or \"processed\", got \"", name, "\".");
}

std::vector<TokenLogprob> top_logprobs(const Chain& chain, RequestState& state, LogprobKind kind,
                                       size_t count) {
  auto tokens = logprobs_of(chain, state, kind);
  count = std::min(count, tokens.size());
  const auto comes_first = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token);
  };
  const auto end = tokens.begin() + static_cast<ptrdiff_t>(count);
  std::partial_sort(tokens.begin(), end, tokens.end(), comes_first);
  return {tokens.begin(), end};
}

double logprob_of(const Chain& chain, RequestState& state, LogprobKind kind, uint32_t token) {
  const auto tokens = logprobs_of(chain, state, kind);
  state.expect_token("logprob", token);
  const auto found = std::find_if(tokens.begin(), tokens.end(),
                                  [&](const TokenLogprob& t) { return t.token == token; });
  return found == tokens.end() ? negative_infinity : found->logprob;
}

}  // namespace mlx_sampling

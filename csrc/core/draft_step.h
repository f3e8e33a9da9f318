// A step of a request whose next token may have been drafted: its law, and exact acceptance from
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/chain.h"
#include "core/request_state.h"
#include "core/speculative.h"
#include "core/step.h"

namespace mlx_sampling {

// A drafted token and the distribution that it was drawn from.
struct Draft {
  uint32_t token;
  TokenProbs probs;
};

struct DraftStep {
  Step step;
  bool kept;  // whether the token is the draft, accepted
};

// Lets `fill` open a row in `state`, checks it, and keeps the draft or draws another token, so that
// the token has the law of the chain. All draws are the distribution stream's, by the rules of
// speculative.h: one word for the draft, two for another token; a chain without draws has none, and
// keeps the draft that is its pick. The state's candidates are that law afterwards. Throws what
// `step` and `check_probs` throw, and where the chain draws before its pick; nothing is drawn then.
DraftStep draft_step(const Chain& chain, RequestState& state, const std::function<void()>& fill,
                     const std::optional<Draft>& draft);

}  // namespace mlx_sampling

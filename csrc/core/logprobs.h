// Log probabilities of tokens, computed in double; nothing is drawn or changed for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/chain.h"
#include "core/request_state.h"

namespace mlx_sampling {

struct TokenLogprob {
  uint32_t token;
  double logprob;
};

// raw: the softmax of the retained row, as the model gave it. processed: the law that the last
// token was drawn from, the softmax of the candidates that the chain left; one token at logprob 0
// where the chain ends with greedy.
enum class LogprobKind { raw, processed };

// Throws std::invalid_argument unless `name` is "raw" or "processed".
LogprobKind parse_logprob_kind(std::string_view name);

// The `count` likeliest tokens, fewer where fewer can come at all; of equal ones the lowest id is
// first. Throws std::invalid_argument where there is no row, or no step that gave a token for it.
std::vector<TokenLogprob> top_logprobs(const Chain& chain, RequestState& state, LogprobKind kind,
                                       size_t count);

// That of one token; -inf where it cannot come. Throws as `top_logprobs`, and for an id outside the
// row.
double logprob_of(const Chain& chain, RequestState& state, LogprobKind kind, uint32_t token);

}  // namespace mlx_sampling

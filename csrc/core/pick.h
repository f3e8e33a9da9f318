// From a request's retained row to a token: its chain, under its grammar where it has one.
#pragma once

#include <cstdint>

#include "core/chain.h"
#include "core/request_state.h"

namespace mlx_sampling {

struct Pick {
  uint32_t token;
  int64_t grammar_ns;  // of the time, what the grammar took: checks and masks
};

// Runs the chain on the unmasked row and, only where the grammar refuses the token, again on the
// masked one: the streams are then where two draws leave them. A grammar that masks first is
// applied to the row before the chain, which runs once.
//
// Throws what Chain::sample() does, and GrammarRefusal where no token that the grammar allows can
// be picked; the state is then as before.
Pick pick(const Chain& chain, RequestState& state);

// Leaves the law of `pick`'s token, as Chain::weigh() does the chain's; nanoseconds of the
// grammar's part. Where the grammar refuses some of what the chain would draw, that much of the law
// is spread as the chain's on the masked row, which is the law of the second draw. Throws what
// Chain::weigh() does, GrammarRefusal as `pick`, and std::invalid_argument for a chain whose state
// depends on whether there was one, unless the grammar masks first.
int64_t weigh(const Chain& chain, RequestState& state);

}  // namespace mlx_sampling

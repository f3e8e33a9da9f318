// A request's policy: stages in order, from a row of logits to a token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/request_state.h"
#include "core/samplers/sampler.h"

namespace mlx_sampling {

// Immutable and shared: any number of requests may sample through one chain at once.
class Chain {
 public:
  // Throws std::invalid_argument unless the last stage, and no other, selects, and where a stage
  // that may be there once is there twice.
  explicit Chain(std::vector<std::shared_ptr<const Sampler>> stages);

  // A token from the state's retained row, which stays as it is. Throws std::logic_error where
  // there is no row, NonfiniteLogits where the stages leave no token to pick, std::invalid_argument
  // where logits overflow on the way; streams, mu and averages are then as before.
  uint32_t sample(RequestState& state) const;

  // Adds tokens to the request's history, prompt tokens included, and tells every stage of each.
  // Throws std::invalid_argument for an id outside the state's rows, or, before the first row, for
  // one that no row can have; the state is then as before.
  void accept(RequestState& state, std::span<const uint32_t> tokens) const;

  const std::vector<std::shared_ptr<const Sampler>>& stages() const { return stages_; }

 private:
  uint32_t run(RequestState& state, const Streams& streams) const;

  std::vector<std::shared_ptr<const Sampler>> stages_;
  bool may_stay_open_;
};

// Puts every candidate of the last step in its place. Most callers want the token alone, and that
// depends on the order of tied logits at one place only: a first stage may leave it open, and the
// step is done again in full, with the stream as it was, for whoever looks at the candidates.
// Throws std::logic_error where the row is gone.
void settle(RequestState& state);

}  // namespace mlx_sampling

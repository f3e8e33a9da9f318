// A request's policy: stages in order, from a row of logits to a token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/request_state.h"
#include "core/samplers/stage.h"

namespace mlx_sampling {

// Immutable and shared: any number of requests may sample through one chain at once.
class Chain {
 public:
  // Throws std::invalid_argument unless the last stage, and no other, selects, and where a stage
  // that may be there once is there twice.
  explicit Chain(std::vector<std::shared_ptr<const Stage>> stages);

  // A token from the state's `chain_row()`, which stays as it is; no grammar is asked. Throws
  // std::logic_error where there is no row, NonfiniteLogits where the stages leave no token to
  // pick, std::invalid_argument where logits overflow on the way; streams, mu and averages are then
  // as before.
  uint32_t sample(RequestState& state) const;

  // Leaves the law that `sample` would draw the token from: p of the state's candidates, in their
  // order. Draws nothing, and changes nothing that lasts. Nothing is selected, unless the chain's
  // pick is no draw: then that candidate is alone. Throws as `sample`, and std::invalid_argument
  // where a stage draws before the pick: there is no such law then.
  void weigh(RequestState& state) const;

  // Makes candidate `picked` of `weigh` the one that the step picked.
  void record_pick(RequestState& state, size_t picked) const;

  // Adds a generated token to the request's history, its grammar's text, and tells every stage.
  // Throws std::invalid_argument for an id outside the state's rows, or, before the first row, for
  // one that no row can have, and GrammarRefusal; the state is then as before.
  void accept(RequestState& state, uint32_t token) const;

  // Adds the prompt's tokens: all of them or, where one is refused, none. They are no text of the
  // grammar.
  void accept_prompt(RequestState& state, std::span<const uint32_t> tokens) const;

  const std::vector<std::shared_ptr<const Stage>>& stages() const { return stages_; }

 private:
  template <typename Run>
  auto guarded(RequestState& state, Run&& run) const;
  uint32_t run(RequestState& state, const Mt19937& distribution) const;
  void add(RequestState& state, uint32_t token) const;
  void run_and_weigh(RequestState& state) const;

  std::vector<std::shared_ptr<const Stage>> stages_;
  bool may_stay_open_;
};

// Puts every candidate of the last step in its place. Most callers want the token alone, and that
// depends on the order of tied logits at one place only: a first stage may leave it open, and the
// step is done again in full, with the stream as it was, for whoever looks at the candidates.
// Throws std::logic_error where the row is gone.
void place_candidates(RequestState& state);

}  // namespace mlx_sampling

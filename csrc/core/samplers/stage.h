// One stage of a chain. Stages are immutable and shared between requests: what changes lives in the
// RequestState.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>

#include "core/candidates.h"
#include "core/request_state.h"

namespace mlx_sampling {

class Stage {
 public:
  virtual ~Stage() = default;

  virtual std::string_view name() const = 0;

  // Whether the stage picks a token. A chain ends with such a stage, and has no other.
  virtual bool selects() const { return false; }

  // Whether a chain may have one stage of this name only: what it keeps in the state is one of a
  // kind.
  virtual bool once() const { return false; }

  // Changes, orders, drops or selects candidates; draws from the state's streams. May throw with
  // the state moved on: the chain puts it back.
  virtual void apply(Candidates& candidates, RequestState& state) const = 0;

  // `apply` for the first stage of a chain. A stage that can do without all candidates overrides
  // it; the token must be the same, and so must what a stage after it sees.
  virtual void apply_row(std::span<const float> row, Candidates& candidates,
                         RequestState& state) const {
    candidates.fill(row);
    apply(candidates, state);
  }

  // Whether the stage draws before a token is picked: the law of the pick is then random itself.
  virtual bool draws_first() const { return false; }

  // For a stage that selects: leaves the candidates with the law that `apply` would draw the token
  // from as their p, and draws nothing. One that never draws leaves its pick alone, as selected.
  virtual void weigh(Candidates&, RequestState&) const {
    throw std::logic_error("[chain] Expected a stage that selects.");
  }

  // Does to the state what `apply` does once it has picked candidate `picked` after `weigh`.
  virtual void record_pick(const Candidates& /*candidates*/, size_t /*picked*/,
                           RequestState&) const {}

  // `apply_row` for a chain whose other stages keep places, and that needs no more than a token:
  // may leave `candidates.open`. Sorted ones then have every logit and p as `apply_row` has it, but
  // for the sign of a logit of 0, and any id of those with that logit. Others have the places of
  // Tie::mixed filled in any order too.
  virtual void apply_row_open(std::span<const float> row, Candidates& candidates,
                              RequestState& state) const {
    apply_row(row, candidates, state);
  }

  // The id at a place of the candidates that `apply_row_open` left open; `no_token` at a place of
  // Tie::mixed.
  virtual uint32_t id_at(size_t place, const RequestState& state) const {
    return state.candidates.data[place].id;
  }

  // Whether `apply_row` marks candidates as sorted.
  virtual bool leaves_sorted() const { return false; }

  // Whether `apply` looks at no id, and lets those candidates that stay keep their places; where
  // they are marked as sorted, or whether or not.
  virtual bool keeps_places(bool /*sorted*/) const { return false; }

  // Told of every token that joins the text, those of the prompt included.
  virtual void accept(uint32_t, RequestState&) const {}
};

}  // namespace mlx_sampling

// Everything of a request that changes from step to step, in one object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/candidates.h"
#include "core/grammar_state.h"
#include "core/history.h"
#include "core/in_use.h"
#include "core/logit_bits.h"
#include "core/mt19937.h"
#include "core/reference.h"
#include "core/row_index.h"

namespace mlx_sampling {

// A row of logits that no token may be taken from.
class NonfiniteLogits : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

inline constexpr size_t max_row_width = std::numeric_limits<int32_t>::max();

// Throws std::invalid_argument unless `name` is "error" or "masked".
NegInf parse_neg_inf(std::string_view name);

// One stream per use, all of the request's seed: what one feature draws cannot shift another's
// draws.
struct Streams {
  explicit Streams(uint32_t seed) : distribution(seed), xtc(seed), mirostat(seed), adaptive(seed) {}

  Mt19937 distribution;
  Mt19937 xtc;
  Mt19937 mirostat;
  Mt19937 adaptive;
};

// What adaptive_p keeps: the probabilities of the accepted tokens, and their number, in sums that
// decay; and the token that the last step picked.
struct AdaptiveAverage {
  float weighted_sum;
  float total_weight;
  std::optional<uint32_t> pending_token = std::nullopt;  // until a token is accepted
  float pending_p = 0;
};

class Stage;

// What a chain needs to do its last step again in full: its stages, and the stream as it was.
struct OpenStep {
  std::vector<std::shared_ptr<const Stage>> stages;
  Mt19937 distribution;
};

// Used by one thread at a time, which InUse makes sure of.
class RequestState {
 public:
  static constexpr const char* use_name = "sampler";

  // Rows have `vocab_size` logits; 0 = as many as the first row has.
  explicit RequestState(uint32_t seed, Reference reference = Reference::libcxx,
                        NegInf neg_inf = NegInf::error, size_t vocab_size = 0);

  const UseFlag& use_flag() const { return use_; }
  uint32_t seed() const { return seed_; }
  Reference reference() const { return reference_; }
  NegInf neg_inf() const { return neg_inf_; }
  size_t vocab_size() const { return vocab_size_; }

  // Where the next row is to be written, all of it; the retained row is given up. `finish_row()`
  // makes the new one the retained row. Of a row of `width` logits the first `vocab_size()` count,
  // where that is set: padding of a model's head is nobody's input. Throws std::invalid_argument,
  // keeping the retained row, where the width is below that, or not that of the rows before.
  std::span<float> begin_row(size_t width);

  // `begin_row()`, and fills the row.
  void copy_row(std::span<const float> row);

  // Checks the row that `begin_row()` opened and retains it. Throws NonfiniteLogits, leaving the
  // request without a row, on NaN or +inf, on -inf unless it is a mask, and where every logit is
  // -inf.
  void finish_row();

  bool has_row() const { return row_state_ == RowState::retained; }

  // The retained row; throws std::logic_error where there is none.
  std::span<const float> row() const;

  // The row that the chain is run on, and its index: the retained one; or, from `mask_row()` until
  // `unmask_row()`, that with -inf in place of the tokens whose bit in `allowed` is 0.
  std::span<const float> chain_row() const { return masked_ ? masked_row_.logits : row(); }
  const RowIndex& row_index() const { return masked_ ? masked_row_.index : row_.index; }
  void mask_row(std::span<const uint32_t> allowed);
  void unmask_row() { masked_ = false; }
  bool is_masked() const { return masked_; }

  // As it was when made: streams at their start, no history, no row, any width, no stage begun, the
  // grammar at its start.
  void reset();

  // Gives up candidates that are open: their row is gone, or the step failed.
  void drop_open_step();

  // Width of the rows so far, or what the next one must have; 0 where any will do.
  size_t width() const { return width_; }

  // What a request that goes on from a snapshot has seen. Throws std::invalid_argument for a width
  // that rows of this request cannot have.
  void expect_width(size_t width);

  // Throws std::invalid_argument, in the name of `who`, for an id that no row has.
  void expect_token(std::string_view who, uint32_t token) const;

  Streams streams;
  std::optional<float> mirostat_mu;                 // none before the first step
  std::optional<AdaptiveAverage> adaptive_average;  // none before the first step
  History history;
  std::optional<GrammarState> grammar;  // none: any text
  Candidates candidates;  // scratch of the chain; after a step, what the token was picked from
  std::optional<OpenStep> open_step;         // of candidates that are open: see place_candidates()
  std::vector<float> probs_before_adaptive;  // scratch of adaptive_p: of the same candidates

  // Where the request stands, its streams apart: those only go on.
  struct Mark {
    size_t accepted;
    std::optional<float> mirostat_mu;
    std::optional<AdaptiveAverage> adaptive_average;
    std::optional<GrammarState> grammar;
  };
  Mark mark() const { return {history.tokens().size(), mirostat_mu, adaptive_average, grammar}; }

  // Takes back what was accepted since the mark. Throws std::invalid_argument for a mark of a
  // longer history.
  void rollback(const Mark& mark);

  // Starts every stream at another seed; the rest stays.
  void reseed(uint32_t seed);

 private:
  // Looks at every logit, copying it from `source` first where there is one.
  void index_row(const float* source);

  enum class RowState { absent, open, retained };

  uint32_t seed_;
  Reference reference_;
  NegInf neg_inf_;
  size_t vocab_size_;  // 0 = not known
  IndexedRow row_;
  IndexedRow masked_row_;  // scratch of a masked pick
  bool masked_ = false;
  int32_t least_key_ = 0;
  bool indexed_ = false;  // the index and the least key are those of `row_`
  size_t width_;
  RowState row_state_ = RowState::absent;
  UseFlag use_;
};

// What picking a token moves on, kept so that a failing pick can be taken back.
class Draws {
 public:
  explicit Draws(const RequestState& state)
      : streams_(state.streams), mu_(state.mirostat_mu), average_(state.adaptive_average) {}

  // The state is then without a step's candidates.
  void put_back(RequestState& state) const {
    state.streams = streams_;
    state.mirostat_mu = mu_;
    state.adaptive_average = average_;
    state.candidates.selected = -1;
  }

 private:
  Streams streams_;
  std::optional<float> mu_;
  std::optional<AdaptiveAverage> average_;
};

}  // namespace mlx_sampling

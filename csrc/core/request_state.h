// Everything of a request that changes from step to step, in one object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/candidates.h"
#include "core/history.h"
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

// Used by one thread at a time.
class RequestState {
 public:
  explicit RequestState(uint32_t seed, Reference reference = Reference::libcxx,
                        NegInf neg_inf = NegInf::error);

  uint32_t seed() const { return seed_; }
  Reference reference() const { return reference_; }
  NegInf neg_inf() const { return neg_inf_; }

  // Where the next row is to be written, all of it; the retained row is given up. `finish_row()`
  // makes the new one the retained row. Throws std::invalid_argument, keeping the retained row,
  // where the width is not that of the rows before.
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

  // Of the retained row.
  const RowIndex& row_index() const { return row_index_; }

  // As it was when made: streams at their start, no history, no row, any width, no stage begun.
  void reset();

  // Width of the rows so far; 0 before the first.
  size_t width() const { return width_; }

  Streams streams;
  std::optional<float> mirostat_mu;                 // none before the first step
  std::optional<AdaptiveAverage> adaptive_average;  // none before the first step
  History history;
  Candidates candidates;  // scratch of the chain, kept to reuse its memory

 private:
  // Looks at every logit, copying it from `source` first where there is one.
  void index_row(const float* source);

  enum class RowState { absent, open, retained };

  uint32_t seed_;
  Reference reference_;
  NegInf neg_inf_;
  std::vector<float> row_;
  RowIndex row_index_;
  int32_t least_key_ = 0;
  bool indexed_ = false;  // the index and the least key are those of `row_`
  size_t width_ = 0;
  RowState row_state_ = RowState::absent;
};

}  // namespace mlx_sampling

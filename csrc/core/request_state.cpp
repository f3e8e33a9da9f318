#include "core/request_state.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include "core/error.h"
#include "core/key_range.h"

namespace mlx_sampling {
namespace {

[[noreturn]] void refuse_row(std::span<const float> row, NegInf neg_inf) {
  std::ostringstream error;
  size_t i = 0;
  while (i < row.size() && (std::isfinite(row[i]) || (neg_inf == NegInf::masked && row[i] < 0))) {
    ++i;
  }
  if (i == row.size()) {
    error << "[logits] Expected a candidate, got a row of " << row.size()
          << " logits that are all -inf.";
  } else {
    const char* name = std::isnan(row[i]) ? "nan" : row[i] > 0 ? "+inf" : "-inf";
    error << "[logits] Expected finite logits, got " << name << " at index " << i
          << (std::isnan(row[i]) || row[i] > 0 ? "."
                                               : " (neg_inf=\"masked\" takes -inf as a mask).");
  }
  throw NonfiniteLogits(error.str());
}

}  // namespace

NegInf parse_neg_inf(std::string_view name) {
  if (name == "error") return NegInf::error;
  if (name == "masked") return NegInf::masked;
  throw std::invalid_argument("[neg_inf] Expected \"error\" or \"masked\", got \"" +
                              std::string(name) + "\".");
}

RequestState::RequestState(uint32_t seed, Reference reference, NegInf neg_inf, size_t vocab_size)
    : streams(seed),
      seed_(seed),
      reference_(reference),
      neg_inf_(neg_inf),
      vocab_size_(vocab_size),
      width_(vocab_size) {
  if (vocab_size > max_row_width) {
    refuse("[vocab_size] Expected at most ", max_row_width, ", got ", vocab_size, ".");
  }
}

std::span<float> RequestState::begin_row(size_t width) {
  if (width == 0 || width > max_row_width) {
    refuse("[logits] Expected a row of 1 to ", max_row_width, " logits, got ", width, ".");
  }
  if (vocab_size_ != 0) {
    if (width < vocab_size_) {
      refuse("[logits] Expected a row of at least ", vocab_size_, " logits (vocab_size), got ",
             width, ".");
    }
    width = vocab_size_;
  } else if (width_ != 0 && width != width_) {
    refuse("[logits] Expected a row of ", width_, " logits, as in the steps before, got ", width,
           " (reset() allows another width).");
  }
  row_.logits.resize(width);
  row_state_ = RowState::open;
  candidates.selected = -1;
  drop_open_step();
  indexed_ = false;
  masked_ = false;
  return row_.logits;
}

void RequestState::copy_row(std::span<const float> row) {
  begin_row(row.size());
  index_row(row.data());
}

void RequestState::index_row(const float* source) {
  auto* words = reinterpret_cast<uint32_t*>(row_.logits.data());
  const auto* from = reinterpret_cast<const uint32_t*>(source);
  row_.index.greatest.clear();
  least_key_ = std::numeric_limits<int32_t>::max();
  for (size_t begin = 0; begin < row_.logits.size(); begin += block_width) {
    const size_t count = std::min(block_width, row_.logits.size() - begin);
    const auto range = from == nullptr ? key_range(words + begin, count)
                                       : copy_with_key_range(from + begin, count, words + begin);
    least_key_ = std::min(least_key_, range.least);
    row_.index.greatest.push_back(std::bit_cast<float>(Float32Bits::word(range.greatest)));
  }
  row_.index.least = std::bit_cast<float>(Float32Bits::word(least_key_));
  indexed_ = true;
}

void RequestState::finish_row() {
  if (row_state_ != RowState::open) {
    throw std::logic_error("[finish_row] Expected a row that begin_row() opened, got none.");
  }
  row_state_ = RowState::absent;
  if (!indexed_) index_row(nullptr);
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr int32_t inf_key = Float32Bits::inf_key;
  const int32_t least_legal = neg_inf_ == NegInf::masked ? -inf_key : -inf_key + 1;
  // A NaN lies below every legal key, or is its block's greatest.
  bool legal = least_key_ >= least_legal;
  bool any = false;
  for (const float greatest : row_.index.greatest) {
    legal &= greatest < inf;
    any |= greatest > -inf;
  }
  if (!legal || !any) refuse_row(row_.logits, neg_inf_);
  width_ = row_.logits.size();
  row_state_ = RowState::retained;
}

std::span<const float> RequestState::row() const {
  if (!has_row()) throw std::logic_error("[row] Expected a row of logits, got none.");
  return row_.logits;
}

void RequestState::mask_row(std::span<const uint32_t> allowed) {
  masked_ = false;
  if (allowed.size() * 32 < row().size()) {
    throw std::logic_error("[mask_row] Expected a bit for each logit.");
  }
  masked_row_.assign_masked(row_, allowed);
  masked_ = true;
}

void RequestState::expect_width(size_t width) {
  if (width > max_row_width) {
    refuse("[logits] Expected rows of at most ", max_row_width, " logits, got a width of ", width,
           ".");
  }
  if (vocab_size_ != 0 && width != vocab_size_) {
    refuse("[logits] Expected rows of ", vocab_size_, " logits, got a width of ", width, ".");
  }
  width_ = width;
}

void RequestState::expect_token(std::string_view who, uint32_t token) const {
  const size_t end = width_ != 0 ? width_ : max_row_width;
  if (token >= end) refuse("[", who, "] Expected a token id in [0, ", end, "), got ", token, ".");
}

void RequestState::drop_open_step() {
  if (!candidates.open) return;
  candidates.data.clear();
  candidates.open = false;
  open_step.reset();
}

void RequestState::reset() {
  streams = Streams(seed_);
  mirostat_mu.reset();
  adaptive_average.reset();
  history.clear();
  if (grammar) grammar->reset();
  masked_ = false;
  candidates.data.clear();
  candidates.selected = -1;
  candidates.sorted = false;
  candidates.open = false;
  open_step.reset();
  width_ = vocab_size_;
  row_state_ = RowState::absent;
}

void RequestState::rollback(const Mark& mark) {
  if (mark.accepted > history.tokens().size()) {
    refuse("[rollback] Expected a mark of at most ", history.tokens().size(),
           " accepted tokens, got one of ", mark.accepted, ".");
  }
  history.truncate(mark.accepted);
  mirostat_mu = mark.mirostat_mu;
  adaptive_average = mark.adaptive_average;
  grammar = mark.grammar;
}

void RequestState::reseed(uint32_t seed) {
  seed_ = seed;
  streams = Streams(seed);
}

}  // namespace mlx_sampling

// Exact speculative acceptance: keeps drafted tokens so that what comes out has the target's own
// law (Leviathan et al., 2023, "Fast Inference from Transformers via Speculative Decoding"; Chen et
// al., 2023, "Accelerating Large Language Model Decoding with Speculative Sampling"). Not here: how
// a request's distributions come about (draft_step.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/mt19937.h"

namespace mlx_sampling {

// Probabilities of tokens: of `ids`, in whatever order, every other token having none; or, where
// there are no ids, of 0, 1, 2, ... The order is that in which a draw runs through them.
struct TokenProbs {
  std::span<const float> probs;
  std::span<const uint32_t> ids = {};

  bool dense() const { return ids.empty(); }
  uint32_t id(size_t i) const { return dense() ? static_cast<uint32_t>(i) : ids[i]; }
};

// Throws std::invalid_argument, in the name of `name`, unless the probabilities are at least one,
// finite, not negative and add up to 1 within `sum_tolerance`, and the ids unique and below
// `vocab_size`; a dense row is that long.
inline constexpr double sum_tolerance = 1e-3;
void check_probs(const std::string& name, const TokenProbs& probs, size_t vocab_size);

// The part of it that is about the numbers.
void check_sum(const std::string& name, const TokenProbs& probs);

// The row's probabilities in the given order of ids, in `storage`. Throws as `check_probs`, which
// the row has passed, and where a token of positive probability is not among the ids.
TokenProbs in_order(const std::string& name, std::span<const float> row,
                    std::span<const uint32_t> order, std::vector<float>& storage);

// Whether a draft drawn from `draft` is kept: u <= min(p / q, 1) in float32, and never where p is
// 0. One word. The ratio is 1 where q is 0.
bool keeps(const TokenProbs& target, const TokenProbs& draft, uint32_t token, Mt19937& stream);

// A token of positive probability: the first one, in order, whose running sum reaches the total
// times a uniform, summed as doubles. Two words. Throws std::invalid_argument, before any draw,
// where the total is not positive and finite.
uint32_t draw_token(const TokenProbs& probs, Mt19937& stream);

// In place of a rejected draft: `draw_token` from max(p - q, 0) in float32, divided by its sum in
// the order of ids; from p itself where that sum is 0. In the target's order. Two words.
uint32_t draw_replacement(const TokenProbs& target, const TokenProbs& draft, Mt19937& stream);

struct SpeculativeDecision {
  size_t accepted;      // drafts kept, from the first on
  uint32_t next_token;  // the token after them: in place of the first rejected one, or a bonus
  bool recovered;       // which of the two
};

// Verifies one request's drafts. `drafts` has the distribution that each token was drawn from,
// `targets` those of the same positions and of the one after them. Nothing is checked but the
// token ids: `check_draft` is due before.
SpeculativeDecision verify_draft(std::span<const uint32_t> tokens,
                                 std::span<const TokenProbs> drafts,
                                 std::span<const TokenProbs> targets, Mt19937& stream);

// Throws std::invalid_argument where lengths do not fit together, an id is outside the vocabulary
// or probabilities are none. Without a dense row any id below 2**31 is in the vocabulary.
void check_draft(std::span<const uint32_t> tokens, std::span<const TokenProbs> drafts,
                 std::span<const TokenProbs> targets);

// The two halves of it that are not about lengths.
void check_tokens(std::span<const uint32_t> tokens, size_t vocab_size);
void check_rows(std::span<const TokenProbs> drafts, std::span<const TokenProbs> targets);

}  // namespace mlx_sampling

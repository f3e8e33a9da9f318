// Makes tokens less likely that would continue a repetition of what the request has said before.
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/samplers/stage.h"

namespace mlx_sampling {

struct DryOptions {
  double multiplier = 0.8;      // 0 = off
  double base = 1.75;           // below 1 = off
  int32_t allowed_length = 2;   // repetitions up to this length cost nothing
  int32_t penalty_last_n = 64;  // tokens looked back on; 0 and below = off
  // Token sequences that a repetition does not reach across. Text becomes such sequences through
  // dry_breakers.h.
  std::vector<std::vector<uint32_t>> breakers;
};

// A token that would make the latest `n` tokens and itself a repetition loses multiplier * base **
// (n - allowed_length); a token that is a breaker by itself never does. The logits are no longer
// known to be sorted afterwards.
class Dry : public Stage {
 public:
  // Throws std::invalid_argument unless the values are finite, `multiplier` and `allowed_length`
  // are not negative, and no breaker is empty.
  explicit Dry(const DryOptions& options);

  std::string_view name() const override { return "dry"; }
  void apply(Candidates& candidates, RequestState& state) const override;

 private:
  using Repeats = std::unordered_map<uint32_t, int32_t>;

  int32_t longest_repeat(std::span<const uint32_t> recent) const;
  Repeats repeats(std::span<const uint32_t> recent, int32_t limit) const;

  float multiplier_;
  float base_;
  int32_t allowed_length_;
  int32_t max_exponent_ = 0;                                                // 0 = no limit
  size_t window_;                                                           // 0 = off
  std::unordered_map<uint32_t, std::vector<std::vector<uint32_t>>> tails_;  // by first token
  std::unordered_set<uint32_t> single_token_breakers_;
};

}  // namespace mlx_sampling

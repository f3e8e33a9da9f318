#include "core/samplers/dry.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/listed_candidates.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {
namespace {

constexpr float log_of_greatest_float = 88.7228391f;

template <typename T>
void check_not_negative(std::string_view name, T value) {
  if (value >= 0) return;
  refuse("[dry] Expected ", name, " >= 0, got ", value, ".");
}

// Whether `recent`, the latest token first, holds `tail` in the order it was said, right after the
// token at `head`.
bool follows(std::span<const uint32_t> recent, size_t head, const std::vector<uint32_t>& tail) {
  if (tail.size() > head) return false;
  for (size_t i = 0; i < tail.size(); ++i) {
    if (tail[i] != recent[head - i - 1]) return false;
  }
  return true;
}

// For each place, how many tokens from there on equal the first ones (Z-algorithm); 0 at place 0.
std::vector<int32_t> prefix_lengths(std::span<const uint32_t> recent) {
  const auto count = static_cast<int32_t>(recent.size());
  std::vector<int32_t> lengths(recent.size());
  int32_t begin = 0;
  int32_t end = 0;  // [begin, end) equals the first tokens, with the greatest end so far
  for (int32_t k = 1; k < count; ++k) {
    int32_t length = k < end ? std::min(lengths[k - begin], end - k) : 0;
    while (k + length < count && recent[length] == recent[k + length]) ++length;
    lengths[k] = length;
    if (k + length > end) {
      begin = k;
      end = k + length;
    }
  }
  return lengths;
}

}  // namespace

Dry::Dry(const DryOptions& options)
    : multiplier_(finite_float("dry", "multiplier", options.multiplier)),
      base_(finite_float("dry", "base", options.base)),
      allowed_length_(options.allowed_length),
      window_(options.penalty_last_n > 0 ? static_cast<size_t>(options.penalty_last_n) : 0) {
  check_not_negative("a multiplier", options.multiplier);
  check_not_negative("an allowed length", options.allowed_length);
  if (multiplier_ == 0 || base_ < 1) window_ = 0;
  if (base_ > 1.000001f) {
    max_exponent_ = static_cast<int32_t>(log_of_greatest_float / std::log(base_));
  }
  for (const auto& breaker : options.breakers) {
    if (breaker.empty()) {
      refuse("[dry] Expected breakers of at least one token, got an empty one.");
    }
    tails_[breaker[0]].emplace_back(breaker.begin() + 1, breaker.end());
    if (breaker.size() == 1) single_token_breakers_.insert(breaker[0]);
  }
}

// Tokens since the latest breaker, all where there is none. Where several breakers begin with one
// token the longest counts.
int32_t Dry::longest_repeat(std::span<const uint32_t> recent) const {
  for (size_t head = 0; head < recent.size(); ++head) {
    const auto tails = tails_.find(recent[head]);
    if (tails == tails_.end()) continue;
    int64_t longest = -1;
    for (const auto& tail : tails->second) {
      if (follows(recent, head, tail)) {
        longest = std::max(longest, static_cast<int64_t>(tail.size()));
      }
    }
    if (longest >= 0) return static_cast<int32_t>(static_cast<int64_t>(head) - longest);
  }
  return static_cast<int32_t>(recent.size());
}

// The tokens that would continue a repetition, and the length of the longest that each would.
Dry::Repeats Dry::repeats(std::span<const uint32_t> recent, int32_t limit) const {
  Repeats longest;
  const std::vector<int32_t> lengths = prefix_lengths(recent);
  for (size_t k = 1; k < recent.size(); ++k) {
    const int32_t length = std::min(lengths[k], limit);
    if (length < allowed_length_ || single_token_breakers_.contains(recent[k - 1])) continue;
    const auto entry = longest.try_emplace(recent[k - 1], length).first;
    entry->second = std::max(entry->second, length);
  }
  return longest;
}

void Dry::apply(Candidates& candidates, RequestState& state) const {
  if (window_ == 0) return;
  const auto window = state.history.last(window_);
  if (window.size() <= static_cast<size_t>(allowed_length_)) return;
  const std::vector<uint32_t> recent(window.rbegin(), window.rend());
  const int32_t limit = longest_repeat(recent);
  if (limit < allowed_length_) return;

  for_each_listed(candidates, repeats(recent, limit), [this](Candidate& candidate, int32_t length) {
    int32_t exponent = length - allowed_length_;
    if (max_exponent_ > 0) exponent = std::min(exponent, max_exponent_);
    const float penalty = static_cast<float>(multiplier_ * std::pow(base_, exponent));
    candidate.logit -= penalty;
  });
  candidates.sorted = false;
}

}  // namespace mlx_sampling

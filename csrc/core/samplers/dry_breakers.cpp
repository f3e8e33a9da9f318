#include "core/samplers/dry_breakers.h"

#include <algorithm>

#include "core/error.h"

namespace mlx_sampling {
namespace {

constexpr size_t max_bytes = 40;
constexpr size_t max_tail_tokens = 20;

}  // namespace

std::vector<std::vector<uint32_t>> dry_breakers(std::span<const std::string> texts,
                                                std::string_view breaker,
                                                const Tokenize& tokenize) {
  if (breaker.empty()) {
    refuse("[dry] Expected breakers of text, got an empty one.");
  }
  breaker = breaker.substr(0, max_bytes);

  // Of each proper beginning of the breaker, the tokens of what is left. Filled where needed.
  std::vector<std::vector<uint32_t>> rests(breaker.size());
  std::vector<bool> tokenized(breaker.size());
  std::vector<std::vector<uint32_t>> sequences;
  for (uint32_t token = 0; token < texts.size(); ++token) {
    const std::string_view text = texts[token];
    if (text.find(breaker) != text.npos) {
      sequences.push_back({token});
      continue;
    }
    const size_t first_of_token = sequences.size();
    for (size_t length = std::min(text.size(), breaker.size() - 1); length > 0; --length) {
      if (!text.ends_with(breaker.substr(0, length))) continue;
      if (!tokenized[length]) {
        rests[length] = tokenize(breaker.substr(length));
        rests[length].resize(std::min(rests[length].size(), max_tail_tokens));
        tokenized[length] = true;
      }
      std::vector<uint32_t> sequence{token};
      sequence.insert(sequence.end(), rests[length].begin(), rests[length].end());
      const auto same = std::find(sequences.begin() + static_cast<ptrdiff_t>(first_of_token),
                                  sequences.end(), sequence);
      if (same == sequences.end()) sequences.push_back(std::move(sequence));
    }
  }
  return sequences;
}

}  // namespace mlx_sampling

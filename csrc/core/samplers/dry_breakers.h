// Text at which dry is to stop looking back, as the token sequences that can spell it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mlx_sampling {

// Tokens of a piece of text, no special tokens added or recognised. The text may begin or end
// within a character.
using Tokenize = std::function<std::vector<uint32_t>(std::string_view)>;

// For each token in id order: the token alone where its text contains `breaker`; else, for each
// place where its text ends with the beginning of `breaker`, the token followed by the tokens of
// the rest. `texts` is the text of every token, special ones too. As llama.cpp has it, at most 40
// bytes of `breaker` and 20 tokens after the first count. Throws std::invalid_argument for an empty
// breaker.
std::vector<std::vector<uint32_t>> dry_breakers(std::span<const std::string> texts,
                                                std::string_view breaker, const Tokenize& tokenize);

}  // namespace mlx_sampling

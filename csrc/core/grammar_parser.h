// From llama-style GBNF text to a grammar's syntax.
//
// The language is llama.cpp's. Where llama.cpp is careless: a rule defined twice, a maximum below
// the minimum, escapes of surrogates and token ids beyond the vocabulary are errors; counts are
// exact up to `max_repetitions`; left recursion is no error.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/grammar_error.h"
#include "core/grammar_syntax.h"
#include "core/vocabulary.h"

namespace mlx_sampling {

// Groups in groups, and repetitions of repetitions.
inline constexpr uint32_t max_grammar_nesting = 1000;
inline constexpr uint32_t max_repetitions = 2'147'483'647;

// `vocabulary` is what tokens in `< >` are looked up in. Throws GrammarError. Rules that the root
// does not reach are read and checked like all others, and kept.
//
// Canonical: nodes of kind sequence and choice have no child of kind sequence, and not exactly one
// child; nothing is repeated exactly once or exactly never.
GrammarSyntax parse_grammar(std::string_view text, std::string_view root = "root",
                            const Vocabulary* vocabulary = nullptr);

}  // namespace mlx_sampling

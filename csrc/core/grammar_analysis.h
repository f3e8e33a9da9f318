// What a grammar's nodes and rules are like, before automata are built from them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/grammar_syntax.h"

namespace mlx_sampling {

struct GrammarAnalysis {
  static constexpr uint32_t calls_others = std::numeric_limits<uint32_t>::max();

  std::vector<bool> node_is_nullable;    // matches the empty text
  std::vector<bool> node_is_productive;  // matches anything at all
  std::vector<uint32_t> node_cost;       // about how many edges, or `calls_others`
  std::vector<bool> rule_is_inlined;     // small, and calls no rule that is not inlined itself;
                                         // none and no cost without fast_paths()

  bool is_nullable(const GrammarSyntax& syntax, uint32_t rule) const {
    return node_is_nullable[syntax.rules[rule].body];
  }
};

// `token_set_is_empty[i]`: whether token node `i` can match no token; nodes of other kinds: false.
// Throws std::invalid_argument for a syntax that is not well formed, or nested too deep.
GrammarAnalysis analyse(const GrammarSyntax& syntax, const std::vector<bool>& token_set_is_empty);

// Whether a counted repetition is written out: it is short, and its texts need no rule.
bool is_unrolled(const GrammarSyntax& syntax, const GrammarAnalysis& analysis, uint32_t node);

}  // namespace mlx_sampling

// From a grammar's syntax back to GBNF text.
#pragma once

#include <string>

#include "core/grammar_syntax.h"

namespace mlx_sampling {

// One rule a line, in their order; tokens by id. `parse_grammar` of it with the root's name gives
// the same syntax. Takes what `parse_grammar` makes.
std::string print_grammar(const GrammarSyntax& syntax);

}  // namespace mlx_sampling

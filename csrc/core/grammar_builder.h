// From a grammar's syntax to its automaton: edges with empty moves (grammar_builder.cpp), then
// without them, trimmed and ordered (grammar_compaction.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "core/grammar_automaton.h"
#include "core/grammar_syntax.h"
#include "core/vocabulary.h"

namespace mlx_sampling {

// Automata as a list of edges, empty moves among them.
struct LooseAutomaton {
  enum class Kind : uint8_t { bytes, call, token, empty };

  struct Edge {
    uint32_t from;
    uint32_t to;
    uint32_t what;  // a rule, or a set of tokens
    Kind kind;
    uint8_t first;  // of bytes
    uint8_t last;
    bool operator==(const Edge&) const = default;
  };

  struct Rule {
    uint32_t start = 0;
    uint32_t end = 0;
    uint32_t minimum = 0;
    uint32_t maximum = 0;
    bool counted = false;  // one repetition leads from `start` to `end`
  };

  uint32_t states = 0;
  std::vector<Edge> edges;
  std::vector<Rule> rules;
  std::vector<GrammarAutomaton::TokenSet> token_sets;
  uint32_t root = 0;  // a rule
  bool root_is_nullable = false;
};

// Throws std::invalid_argument where the root matches nothing, where the automaton would be too
// large, and for token literals without a vocabulary or outside of it.
LooseAutomaton build(const GrammarSyntax& syntax, const Vocabulary* vocabulary);

// Throws std::invalid_argument where the automaton would be too large.
GrammarAutomaton compact(const LooseAutomaton& loose);

// Leads edges to states that are alike to one of them (grammar_merging.cpp).
void merge_states(GrammarAutomaton& automaton);

// Fills in `component` and `cyclic` of the rules.
void order_rules(GrammarAutomaton& automaton);

inline constexpr size_t most_grammar_edges = 2'000'000;

// Refuses a grammar that has more.
void check_edges(size_t edges);

}  // namespace mlx_sampling

// A grammar as finite automata over bytes, one per rule, that call each other. There are no empty
// moves: a call matches at least one byte or token, and what may be skipped is skipped at build
// time. Every state lies on a way to a complete text. Built by grammar_builder.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mlx_sampling {

struct GrammarAutomaton {
  struct ByteEdge {
    uint8_t first;  // classes of bytes, both included
    uint8_t last;
    uint32_t target;
  };

  struct CallEdge {
    uint32_t rule;
    uint32_t target;
    bool tail;  // nothing comes after: whatever called this rule goes on where `rule` ends
  };

  struct TokenEdge {
    uint32_t set;
    uint32_t target;
  };

  struct State {
    uint32_t bytes = 0;  // edges: from here up to the next state's
    uint32_t calls = 0;
    uint32_t tokens = 0;
    uint32_t rule = 0;
    bool final = false;  // the rule may end here
    bool again = false;  // of a counted rule: one more repetition ends here, and `start` is next
    bool has_edges = false;
  };

  // A counted rule repeats what leads from `start` to an `again` state: it may end at `start`,
  // `minimum` to `maximum` repetitions done. Other rules have (0, 0).
  struct Rule {
    uint32_t start = 0;
    uint32_t minimum = 0;
    uint32_t maximum = 0;
    uint32_t component = 0;  // of rules that call each other first; callers have lower numbers
    bool counted = false;
    bool cyclic = false;  // calls itself first, through others of its component or directly
  };

  // Ids, ascending; `negated`: the others, of those that a token literal can match at all.
  struct TokenSet {
    std::vector<uint32_t> ids;
    bool negated = false;
  };

  std::array<uint8_t, 256> class_of{};
  uint32_t classes = 0;
  std::vector<State> states;  // and one more, past the last
  std::vector<ByteEdge> byte_edges;
  std::vector<CallEdge> call_edges;
  std::vector<TokenEdge> token_edges;
  std::vector<Rule> rules;
  std::vector<TokenSet> token_sets;
  uint32_t root = 0;  // a rule
  bool root_is_nullable = false;

  std::span<const ByteEdge> bytes_of(uint32_t state) const {
    return {byte_edges.data() + states[state].bytes, byte_edges.data() + states[state + 1].bytes};
  }
  std::span<const CallEdge> calls_of(uint32_t state) const {
    return {call_edges.data() + states[state].calls, call_edges.data() + states[state + 1].calls};
  }
  std::span<const TokenEdge> tokens_of(uint32_t state) const {
    return {token_edges.data() + states[state].tokens,
            token_edges.data() + states[state + 1].tokens};
  }
  const Rule& rule_of(uint32_t state) const { return rules[states[state].rule]; }
  bool is_counted_start(uint32_t state) const {
    const Rule& rule = rule_of(state);
    return rule.counted && rule.start == state;
  }
};

}  // namespace mlx_sampling

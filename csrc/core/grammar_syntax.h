// A grammar as it was written: rules, and what stands in them. Names are resolved, classes of
// characters are sets of code points; nothing is unrolled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mlx_sampling {

// Code points, both included: scalar values only, none of the surrogates.
struct CharRange {
  uint32_t first;
  uint32_t last;
};

inline constexpr uint32_t no_maximum = std::numeric_limits<uint32_t>::max();

struct GrammarSyntax {
  enum class Kind : uint8_t {
    chars,      // one code point out of `ranges[first .. first + count)`: ascending, disjoint, not
                // touching; a negated class is the set of the others. No range: matches nothing
    tokens,     // one token out of `token_ids[first .. first + count)`, ascending, each once
    no_tokens,  // one token that is none of them
    rule,       // what rule `first` matches
    sequence,   // `children[first .. first + count)` one after the other; none: the empty text
    choice,     // one of them
    repeat,     // node `first`, `minimum` to `maximum` times
  };

  struct Node {
    Kind kind;
    uint32_t first = 0;
    uint32_t count = 0;
    uint32_t minimum = 0;
    uint32_t maximum = 0;  // no_maximum: without end
  };

  struct Rule {
    std::string name;
    uint32_t body = 0;  // a node
    uint32_t line = 0;  // of its definition, from 1
    uint32_t column = 0;
  };

  std::vector<Node> nodes;  // a node comes after the nodes that it is made of
  std::vector<CharRange> ranges;
  std::vector<uint32_t> token_ids;
  std::vector<uint32_t> children;
  std::vector<Rule> rules;
  uint32_t root = 0;  // a rule
};

}  // namespace mlx_sampling

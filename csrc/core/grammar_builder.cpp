#include "core/grammar_builder.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/grammar_analysis.h"
#include "core/utf8_ranges.h"

namespace mlx_sampling {
namespace {

using Kind = GrammarSyntax::Kind;
using Node = GrammarSyntax::Node;
using EdgeKind = LooseAutomaton::Kind;

constexpr uint32_t none = std::numeric_limits<uint32_t>::max();

// The token set of each node that has one, and whether it is empty.
class TokenSets {
 public:
  TokenSets(const GrammarSyntax& syntax, const Vocabulary* vocabulary)
      : set_of_node(syntax.nodes.size(), none), is_empty(syntax.nodes.size()) {
    for (uint32_t i = 0; i < syntax.nodes.size(); ++i) {
      const Node& node = syntax.nodes[i];
      if (node.kind != Kind::tokens && node.kind != Kind::no_tokens) continue;
      if (vocabulary == nullptr) {
        refuse("[grammar] Expected a vocabulary for the grammar's token literals, got none.");
      }
      add(i, node, syntax, *vocabulary);
    }
  }

  std::vector<uint32_t> set_of_node;
  std::vector<bool> is_empty;
  std::vector<GrammarAutomaton::TokenSet> sets;

 private:
  void add(uint32_t i, const Node& node, const GrammarSyntax& syntax,
           const Vocabulary& vocabulary) {
    GrammarAutomaton::TokenSet set;
    set.negated = node.kind == Kind::no_tokens;
    for (uint32_t k = node.first; k < node.first + node.count; ++k) {
      const uint32_t token = syntax.token_ids[k];
      if (token >= vocabulary.size()) {
        refuse("[grammar] Expected token ids in [0, ", vocabulary.size(), "), got ", token, ".");
      }
      if (vocabulary.can_be_literal(token)) set.ids.push_back(token);
    }
    std::sort(set.ids.begin(), set.ids.end());
    set.ids.erase(std::unique(set.ids.begin(), set.ids.end()), set.ids.end());
    is_empty[i] = set.negated ? set.ids.size() >= literals(vocabulary) : set.ids.empty();
    set_of_node[i] = static_cast<uint32_t>(sets.size());
    sets.push_back(std::move(set));
  }

  size_t literals(const Vocabulary& vocabulary) {
    if (literals_ != none) return literals_;
    literals_ = 0;
    for (uint32_t token = 0; token < vocabulary.size(); ++token) {
      literals_ += vocabulary.can_be_literal(token) ? 1 : 0;
    }
    return literals_;
  }

  uint32_t literals_ = none;
};

// What a node leads over from one state to another. Nothing that is built leads into `from` or out
// of `to` but by its own matches, so that what is built in parallel or in a row does not mix.
class Builder {
 public:
  Builder(const GrammarSyntax& syntax, const GrammarAnalysis& analysis, TokenSets& tokens)
      : syntax_(syntax),
        analysis_(analysis),
        set_of_node_(tokens.set_of_node),
        rule_of_rule_(syntax.rules.size(), none),
        rule_of_node_(syntax.nodes.size(), none) {
    loose_.token_sets = std::move(tokens.sets);
  }

  LooseAutomaton build() {
    loose_.root = rule_for(rule_of_rule_, syntax_.root, {});
    loose_.root_is_nullable = analysis_.is_nullable(syntax_, syntax_.root);
    for (size_t done = 0; done < bodies_.size(); ++done) {
      const auto [start, end] = std::pair(loose_.rules[done].start, loose_.rules[done].end);
      build(bodies_[done], start, end);
    }
    return std::move(loose_);
  }

 private:
  uint32_t fresh() { return loose_.states++; }

  void edge(uint32_t from, uint32_t to, EdgeKind kind, uint32_t what, ByteRange range = {0, 0}) {
    loose_.edges.push_back({from, to, what, kind, range.first, range.last});
    check_edges(loose_.edges.size());
  }
  void skip(uint32_t from, uint32_t to) { edge(from, to, EdgeKind::empty, 0); }

  // The rule built for entry `at` of `known`, to be built later where it is new.
  uint32_t rule_for(std::vector<uint32_t>& known, uint32_t at, LooseAutomaton::Rule rule) {
    if (known[at] != none) return known[at];
    known[at] = static_cast<uint32_t>(loose_.rules.size());
    rule.start = fresh();
    rule.end = fresh();
    loose_.rules.push_back(rule);
    bodies_.push_back(rule.counted ? syntax_.nodes[at].first : syntax_.rules[at].body);
    return known[at];
  }

  void call(uint32_t rule, bool nullable, uint32_t from, uint32_t to) {
    edge(from, to, EdgeKind::call, rule);
    if (nullable) skip(from, to);
  }

  void build(uint32_t i, uint32_t from, uint32_t to) {
    if (!analysis_.node_is_productive[i]) return;
    const Node& node = syntax_.nodes[i];
    switch (node.kind) {
      case Kind::chars:
        return build_chars(node, from, to);
      case Kind::tokens:
      case Kind::no_tokens:
        return edge(from, to, EdgeKind::token, set_of_node_[i]);
      case Kind::rule:
        if (analysis_.rule_is_inlined[node.first]) {
          return build(syntax_.rules[node.first].body, from, to);
        }
        return call(rule_for(rule_of_rule_, node.first, {}),
                    analysis_.is_nullable(syntax_, node.first), from, to);
      case Kind::sequence:
        return build_sequence(node, from, to);
      case Kind::choice:
        for (uint32_t k = 0; k < node.count; ++k) {
          build(syntax_.children[node.first + k], from, to);
        }
        return;
      case Kind::repeat:
        return build_repeat(i, node, from, to);
    }
  }

  void build_sequence(const Node& node, uint32_t from, uint32_t to) {
    if (node.count == 0) return skip(from, to);
    for (uint32_t k = 0; k < node.count; ++k) {
      const uint32_t next = k + 1 == node.count ? to : fresh();
      build(syntax_.children[node.first + k], from, next);
      from = next;
    }
  }

  // Sequences of bytes with equal ends share the states of these ends.
  void build_chars(const Node& node, uint32_t from, uint32_t to) {
    std::map<std::tuple<uint8_t, uint8_t, uint32_t>, uint32_t> shared;
    std::vector<Utf8Sequence> sequences;
    for (uint32_t k = node.first; k < node.first + node.count; ++k) {
      append_utf8(syntax_.ranges[k], sequences);
    }
    for (const Utf8Sequence& sequence : sequences) {
      uint32_t next = to;
      for (uint32_t k = sequence.size - 1; k > 0; --k) {
        const ByteRange range = sequence.bytes[k];
        const auto [at, is_new] = shared.try_emplace({range.first, range.last, next}, 0);
        if (is_new) {
          at->second = fresh();
          edge(at->second, next, EdgeKind::bytes, 0, range);
        }
        next = at->second;
      }
      edge(from, next, EdgeKind::bytes, 0, sequence.bytes[0]);
    }
  }

  void build_repeat(uint32_t i, const Node& node, uint32_t from, uint32_t to) {
    const uint32_t part = node.first;
    const bool skippable = node.minimum == 0 || analysis_.node_is_nullable[part];
    if (skippable) skip(from, to);
    if (!analysis_.node_is_productive[part] || node.maximum == 0) return;
    if (node.maximum == 1) return build(part, from, to);
    const uint32_t minimum = skippable ? 0 : node.minimum;
    if (node.maximum == no_maximum && minimum <= 1) return build_loop(part, minimum, from, to);
    if (is_unrolled(syntax_, analysis_, i)) return unroll(node, minimum, from, to);
    const LooseAutomaton::Rule rule{0, 0, minimum, node.maximum, true};
    call(rule_for(rule_of_node_, i, rule), false, from, to);
  }

  void build_loop(uint32_t part, uint32_t minimum, uint32_t from, uint32_t to) {
    const uint32_t hub = fresh();
    skip(from, hub);
    if (minimum == 0) {
      build(part, hub, hub);
      return skip(hub, to);
    }
    const uint32_t once = fresh();
    build(part, hub, once);
    skip(once, hub);
    skip(once, to);
  }

  void unroll(const Node& node, uint32_t minimum, uint32_t from, uint32_t to) {
    for (uint32_t k = 1; k <= node.maximum; ++k) {
      const uint32_t next = k == node.maximum ? to : fresh();
      build(node.first, from, next);
      if (k >= minimum && next != to) skip(next, to);
      from = next;
    }
  }

  const GrammarSyntax& syntax_;
  const GrammarAnalysis& analysis_;
  const std::vector<uint32_t>& set_of_node_;
  std::vector<uint32_t> rule_of_rule_;  // of the syntax, to those of the automaton
  std::vector<uint32_t> rule_of_node_;  // counted repetitions
  std::vector<uint32_t> bodies_;        // nodes, one per rule of the automaton
  LooseAutomaton loose_;
};

}  // namespace

void check_edges(size_t edges) {
  if (edges > most_grammar_edges) {
    refuse("[grammar] Expected a grammar of at most ", most_grammar_edges,
           " edges between states, got a larger one.");
  }
}

LooseAutomaton build(const GrammarSyntax& syntax, const Vocabulary* vocabulary) {
  TokenSets tokens(syntax, vocabulary);
  const GrammarAnalysis analysis = analyse(syntax, tokens.is_empty);
  if (!analysis.node_is_productive[syntax.rules[syntax.root].body]) {
    refuse("[grammar] Expected a root that matches some text, got rule \"",
           syntax.rules[syntax.root].name, "\", which matches none.");
  }
  return Builder(syntax, analysis, tokens).build();
}

}  // namespace mlx_sampling

#include "core/grammar_analysis.h"

#include <algorithm>
#include <functional>
#include <span>

#include "core/error.h"
#include "core/fast_paths.h"

namespace mlx_sampling {
namespace {

using Kind = GrammarSyntax::Kind;
using Node = GrammarSyntax::Node;

constexpr uint32_t deepest = 2'000;           // nodes in each other
constexpr uint32_t largest_inlined = 48;      // edges
constexpr uint32_t largest_unrolled = 32;     // edges
constexpr uint32_t widest_inlined_loop = 64;  // code points
constexpr int inlining_levels = 4;

std::span<const uint32_t> parts_of(const GrammarSyntax& syntax, const Node& node) {
  switch (node.kind) {
    case Kind::sequence:
    case Kind::choice:
      return std::span(syntax.children).subspan(node.first, node.count);
    case Kind::repeat:
      return {&node.first, 1};
    default:
      return {};
  }
}

bool inside(size_t first, size_t count, size_t size) {
  return first <= size && count <= size - first;
}

void check_node(const GrammarSyntax& syntax, size_t i) {
  const Node& node = syntax.nodes[i];
  bool good = true;
  switch (node.kind) {
    case Kind::chars:
      good = inside(node.first, node.count, syntax.ranges.size());
      break;
    case Kind::tokens:
    case Kind::no_tokens:
      good = inside(node.first, node.count, syntax.token_ids.size());
      break;
    case Kind::rule:
      good = node.first < syntax.rules.size();
      break;
    case Kind::sequence:
    case Kind::choice:
      good = inside(node.first, node.count, syntax.children.size());
      break;
    case Kind::repeat:
      good = node.minimum <= node.maximum && node.minimum != no_maximum;
      break;
  }
  if (good) {
    for (uint32_t part : parts_of(syntax, node)) good = good && part < i;
  }
  if (!good) refuse("[grammar] Expected a well-formed syntax, got node ", i, " that is not.");
}

void check(const GrammarSyntax& syntax) {
  std::vector<uint32_t> depth(syntax.nodes.size());
  for (size_t i = 0; i < syntax.nodes.size(); ++i) {
    check_node(syntax, i);
    for (uint32_t part : parts_of(syntax, syntax.nodes[i])) {
      depth[i] = std::max(depth[i], depth[part] + 1);
    }
    if (depth[i] > deepest) {
      refuse("[grammar] Expected at most ", deepest, " levels of nesting, got more.");
    }
  }
  bool good = syntax.root < syntax.rules.size();
  for (const auto& rule : syntax.rules) good = good && rule.body < syntax.nodes.size();
  if (!good) refuse("[grammar] Expected a well-formed syntax, got a rule that is not.");
}

// For each node, the nodes that have it as a part; of a rule's body, the nodes that name the rule.
class Users {
 public:
  explicit Users(const GrammarSyntax& syntax) : begins_(syntax.nodes.size() + 2) {
    for_each(syntax, [&](uint32_t part, uint32_t) { ++begins_[part + 2]; });
    for (size_t i = 2; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    users_.resize(begins_.back());
    for_each(syntax, [&](uint32_t part, uint32_t user) { users_[begins_[part + 1]++] = user; });
  }

  std::span<const uint32_t> of(uint32_t node) const {
    return std::span(users_).subspan(begins_[node], begins_[node + 1] - begins_[node]);
  }

 private:
  template <typename Visit>
  static void for_each(const GrammarSyntax& syntax, Visit visit) {
    for (uint32_t i = 0; i < syntax.nodes.size(); ++i) {
      const Node& node = syntax.nodes[i];
      if (node.kind == Kind::rule) visit(syntax.rules[node.first].body, i);
      for (uint32_t part : parts_of(syntax, node)) visit(part, i);
    }
  }

  std::vector<uint32_t> begins_;
  std::vector<uint32_t> users_;
};

// The least set of nodes that holds `leaf` ones, sequences of members, choices of a member, what
// names a member, and repetitions of members or of none.
std::vector<bool> least_set(const GrammarSyntax& syntax, const Users& users,
                            const std::function<bool(uint32_t)>& leaf) {
  std::vector<bool> member(syntax.nodes.size());
  std::vector<uint32_t> missing(syntax.nodes.size());  // parts of a sequence not in the set
  std::vector<uint32_t> found;
  const auto add = [&](uint32_t node) {
    if (!member[node]) {
      member[node] = true;
      found.push_back(node);
    }
  };
  for (uint32_t i = 0; i < syntax.nodes.size(); ++i) {
    const Node& node = syntax.nodes[i];
    missing[i] = node.count;
    const bool empty = (node.kind == Kind::sequence && node.count == 0) ||
                       (node.kind == Kind::repeat && node.minimum == 0);
    if (empty || leaf(i)) add(i);
  }
  while (!found.empty()) {
    const uint32_t part = found.back();
    found.pop_back();
    for (uint32_t user : users.of(part)) {
      if (syntax.nodes[user].kind != Kind::sequence || --missing[user] == 0) add(user);
    }
  }
  return member;
}

struct Size {
  uint32_t cost = 0;
  bool wide = false;       // a class of many code points is in it
  bool wide_loop = false;  // and repeated: its texts go on and on
};

// Sizes of nodes from those of their parts; one level of inlined rules more with each pass.
class Sizes {
 public:
  Sizes(const GrammarSyntax& syntax, GrammarAnalysis& analysis)
      : syntax_(syntax), analysis_(analysis), sizes_(syntax.nodes.size()) {
    analysis.rule_is_inlined.assign(syntax.rules.size(), false);
    for (int level = 0; level < inlining_levels; ++level) {
      for (uint32_t i = 0; i < sizes_.size(); ++i) sizes_[i] = size_of(syntax.nodes[i]);
      for (uint32_t rule = 0; rule < syntax.rules.size(); ++rule) {
        const Size& size = sizes_[syntax.rules[rule].body];
        analysis.rule_is_inlined[rule] = size.cost <= largest_inlined && !size.wide_loop;
      }
    }
    for (const Size& size : sizes_) analysis.node_cost.push_back(size.cost);
  }

 private:
  static constexpr uint32_t calls_others = GrammarAnalysis::calls_others;

  Size size_of(const Node& node) const {
    switch (node.kind) {
      case Kind::chars:
        return of_chars(node);
      case Kind::rule: {
        const Size& body = sizes_[syntax_.rules[node.first].body];
        return analysis_.rule_is_inlined[node.first] ? body : Size{calls_others};
      }
      case Kind::repeat:
        return of_repeat(node);
      case Kind::sequence:
      case Kind::choice: {
        Size size;
        for (uint32_t part : parts_of(syntax_, node)) add(size, sizes_[part], 1);
        return size;
      }
      default:
        return {1};
    }
  }

  Size of_chars(const Node& node) const {
    uint64_t code_points = 0;
    uint32_t edges = 0;
    for (uint32_t i = node.first; i < node.first + node.count; ++i) {
      const CharRange range = syntax_.ranges[i];
      code_points += range.last - range.first + 1;
      edges += range.last < 0x80 ? 1 : 4;
    }
    return {edges, code_points > widest_inlined_loop, false};
  }

  Size of_repeat(const Node& node) const {
    const Size& part = sizes_[node.first];
    Size size;
    const bool star = node.maximum == no_maximum && node.minimum <= 1;
    add(size, part, star ? 1 : node.maximum);
    if (!star && node.maximum > 1 && size.cost > largest_unrolled) size.cost = calls_others;
    size.wide_loop |= node.maximum > 1 && part.wide;
    return size;
  }

  static void add(Size& size, const Size& part, uint64_t times) {
    const uint64_t cost = size.cost + part.cost * times;
    size.cost = static_cast<uint32_t>(std::min<uint64_t>(cost, calls_others));
    size.wide |= part.wide;
    size.wide_loop |= part.wide_loop;
  }

  const GrammarSyntax& syntax_;
  GrammarAnalysis& analysis_;
  std::vector<Size> sizes_;
};

}  // namespace

GrammarAnalysis analyse(const GrammarSyntax& syntax, const std::vector<bool>& token_set_is_empty) {
  check(syntax);
  GrammarAnalysis analysis;
  const Users users(syntax);
  analysis.node_is_nullable = least_set(syntax, users, [](uint32_t) { return false; });
  analysis.node_is_productive = least_set(syntax, users, [&](uint32_t i) {
    const Node& node = syntax.nodes[i];
    if (node.kind == Kind::chars) return node.count != 0;
    return (node.kind == Kind::tokens || node.kind == Kind::no_tokens) && !token_set_is_empty[i];
  });
  if (fast_paths()) {
    Sizes(syntax, analysis);
  } else {
    analysis.rule_is_inlined.assign(syntax.rules.size(), false);
    analysis.node_cost.assign(syntax.nodes.size(), GrammarAnalysis::calls_others);
  }
  return analysis;
}

bool is_unrolled(const GrammarSyntax& syntax, const GrammarAnalysis& analysis, uint32_t node) {
  const uint64_t cost = analysis.node_cost[syntax.nodes[node].first];
  return syntax.nodes[node].maximum != no_maximum &&
         cost * syntax.nodes[node].maximum <= largest_unrolled;
}

}  // namespace mlx_sampling

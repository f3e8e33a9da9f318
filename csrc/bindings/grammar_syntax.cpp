// From GBNF text to syntax and back; users see grammar.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "core/grammar_parser.h"
#include "core/grammar_printer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mlx_sampling {
namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using Kind = GrammarSyntax::Kind;

GrammarSyntax parse_bytes(const nb::bytes& text, std::string_view root,
                          const Vocabulary* vocabulary) {
  const nb::gil_scoped_release release;
  return parse_grammar({text.c_str(), text.size()}, root, vocabulary);
}

nb::object node_tree(const GrammarSyntax& syntax, const GrammarSyntax::Node& node,
                     const std::vector<nb::object>& made) {
  const uint32_t end = node.first + node.count;
  nb::list parts;
  switch (node.kind) {
    case Kind::chars:
      for (uint32_t i = node.first; i < end; ++i) {
        parts.append(nb::make_tuple(syntax.ranges[i].first, syntax.ranges[i].last));
      }
      return nb::make_tuple("chars", parts);
    case Kind::tokens:
    case Kind::no_tokens:
      for (uint32_t i = node.first; i < end; ++i) parts.append(syntax.token_ids[i]);
      return nb::make_tuple(node.kind == Kind::tokens ? "tokens" : "no_tokens", parts);
    case Kind::rule:
      return nb::make_tuple("rule", syntax.rules[node.first].name);
    case Kind::repeat: {
      const nb::object maximum =
          node.maximum == no_maximum ? nb::none() : nb::object(nb::int_(node.maximum));
      return nb::make_tuple("repeat", made[node.first], node.minimum, maximum);
    }
    case Kind::sequence:
    case Kind::choice:
      for (uint32_t i = node.first; i < end; ++i) parts.append(made[syntax.children[i]]);
      return nb::make_tuple(node.kind == Kind::sequence ? "sequence" : "choice", parts);
  }
  return nb::none();
}

nb::list trees(const GrammarSyntax& syntax) {
  std::vector<nb::object> made;
  for (const auto& node : syntax.nodes) made.push_back(node_tree(syntax, node, made));
  nb::list rules;
  for (const auto& rule : syntax.rules) rules.append(nb::make_tuple(rule.name, made[rule.body]));
  return rules;
}

}  // namespace

void bind_grammar_syntax(nb::module_& m) {
  nb::class_<GrammarSyntax>(m, "GrammarSyntax", "A grammar as written; see grammar_syntax.h.")
      .def_prop_ro("root", [](const GrammarSyntax& self) { return self.rules[self.root].name; })
      .def_prop_ro("rules",
                   [](const GrammarSyntax& self) {
                     std::vector<std::tuple<std::string, uint32_t, uint32_t>> rules;
                     for (const auto& rule : self.rules) {
                       rules.emplace_back(rule.name, rule.line, rule.column);
                     }
                     return rules;
                   })
      .def("trees", &trees, "For tests: (name, tree) of each rule, as nested tuples.");
  m.def("parse_grammar", &parse_bytes, "text"_a, "root"_a = "root",
        "vocabulary"_a.none() = nb::none(), "GBNF to syntax; see grammar_parser.h.");
  m.def("parse_grammar", &parse_grammar, "text"_a, "root"_a = "root",
        "vocabulary"_a.none() = nb::none(), Release());
  m.def("print_grammar", &print_grammar, "syntax"_a, Release(),
        "Syntax to GBNF; see grammar_printer.h.");
}

}  // namespace mlx_sampling

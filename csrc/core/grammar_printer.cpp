#include "core/grammar_printer.h"

#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "core/char_set.h"
#include "core/utf8.h"

namespace mlx_sampling {
namespace {

using Kind = GrammarSyntax::Kind;
using Node = GrammarSyntax::Node;

// Whether a character is written as itself: from Latin to Hangul, without what cannot be seen.
bool is_plain(uint32_t c) {
  if (c < 0x7F) return c >= 0x20;
  if (c == 0xAD || (c >= 0x2000 && c <= 0x206F)) return false;
  return c >= 0xA1 && c <= 0xD7A3;
}

class Printer {
 public:
  explicit Printer(const GrammarSyntax& syntax) : syntax_(syntax) {}

  std::string print() {
    for (const auto& rule : syntax_.rules) {
      text_ += rule.name + " ::= ";
      put_alternatives(syntax_.nodes[rule.body]);
      text_ += '\n';
    }
    return std::move(text_);
  }

 private:
  std::span<const uint32_t> children(const Node& node) const {
    return std::span(syntax_.children).subspan(node.first, node.count);
  }
  std::span<const CharRange> ranges(const Node& node) const {
    return std::span(syntax_.ranges).subspan(node.first, node.count);
  }

  // Whether a node is one certain character, which literals are made of.
  bool is_character(const Node& node) const {
    return node.kind == Kind::chars && node.count == 1 &&
           ranges(node)[0].first == ranges(node)[0].last;
  }

  bool is_literal(const Node& node) const {
    if (node.kind != Kind::sequence || node.count == 0) return false;
    for (uint32_t child : children(node)) {
      if (!is_character(syntax_.nodes[child])) return false;
    }
    return true;
  }

  void put_alternatives(const Node& node) {
    if (node.kind != Kind::choice) return put_sequence(node);
    std::string_view separator;
    for (uint32_t child : children(node)) {
      text_ += separator;
      separator = " | ";
      const Node& alternative = syntax_.nodes[child];
      alternative.kind == Kind::choice ? put_group(alternative) : put_sequence(alternative);
    }
  }

  void put_sequence(const Node& node) {
    if (node.kind != Kind::sequence) return put_item(node);
    if (node.count == 0) {
      text_ += "\"\"";
      return;
    }
    bool in_literal = false;
    std::string_view separator;
    for (uint32_t child : children(node)) {
      const Node& item = syntax_.nodes[child];
      const bool is_char = is_character(item);
      if (in_literal && !is_char) text_ += '"';
      if (!in_literal || !is_char) text_ += separator;
      if (!in_literal && is_char) text_ += '"';
      is_char ? put_character(ranges(item)[0].first, "\"\\") : put_item(item);
      in_literal = is_char;
      separator = " ";
    }
    if (in_literal) text_ += '"';
  }

  // What can stand in a sequence and be repeated.
  void put_item(const Node& node) {
    switch (node.kind) {
      case Kind::chars:
        put_class(node);
        break;
      case Kind::tokens:
      case Kind::no_tokens:
        text_ += node.kind == Kind::tokens ? "<[" : "!<[";
        text_ += std::to_string(syntax_.token_ids[node.first]) + "]>";
        break;
      case Kind::rule:
        text_ += syntax_.rules[node.first].name;
        break;
      case Kind::repeat:
        put_item(syntax_.nodes[node.first]);
        put_bounds(node);
        break;
      case Kind::sequence:
      case Kind::choice:
        is_literal(node) ? put_sequence(node) : put_group(node);
    }
  }

  void put_group(const Node& node) {
    text_ += '(';
    if (node.kind != Kind::sequence || node.count > 0) put_alternatives(node);
    text_ += ')';
  }

  void put_bounds(const Node& node) {
    if (node.maximum == no_maximum && node.minimum <= 1) {
      text_ += node.minimum == 0 ? '*' : '+';
    } else if (node.minimum == 0 && node.maximum == 1) {
      text_ += '?';
    } else {
      text_ += '{' + std::to_string(node.minimum);
      if (node.maximum != node.minimum) text_ += ',';
      if (node.maximum != node.minimum && node.maximum != no_maximum) {
        text_ += std::to_string(node.maximum);
      }
      text_ += '}';
    }
  }

  void put_class(const Node& node) {
    const auto set = ranges(node);
    if (is_character(node)) {
      text_ += '"';
      put_character(set[0].first, "\"\\");
      text_ += '"';
    } else if (set.empty()) {
      text_ += "[b-a]";
    } else if (const auto others = complement(set); others.empty()) {
      text_ += '.';
    } else if (set.front().first == 0 && set.back().last == max_code_point) {
      text_ += "[^";
      put_ranges(others);
    } else {
      text_ += '[';
      put_ranges(set);
    }
  }

  void put_ranges(std::span<const CharRange> set) {
    for (const auto& [first, last] : set) {
      put_character(first, "[]\\-^");
      if (last > first + 1) text_ += '-';
      if (last > first) put_character(last, "[]\\-^");
    }
    text_ += ']';
  }

  void put_character(uint32_t c, std::string_view escaped) {
    const bool is_special = c < 0x80 && escaped.find(static_cast<char>(c)) != escaped.npos;
    if (c == '\n') {
      text_ += "\\n";
    } else if (c == '\r') {
      text_ += "\\r";
    } else if (c == '\t') {
      text_ += "\\t";
    } else if (!is_plain(c) || (is_special && c == '^')) {  // there is no escape `\^`
      put_hexadecimal(c);
    } else {
      if (is_special) text_ += '\\';
      append_char(text_, c);
    }
  }

  void put_hexadecimal(uint32_t c) {
    char text[11];
    const char* format = c <= 0xFF ? "\\x%02X" : c <= 0xFFFF ? "\\u%04X" : "\\U%08X";
    std::snprintf(text, sizeof text, format, static_cast<unsigned>(c));
    text_ += text;
  }

  const GrammarSyntax& syntax_;
  std::string text_;
};

}  // namespace

std::string print_grammar(const GrammarSyntax& syntax) { return Printer(syntax).print(); }

}  // namespace mlx_sampling

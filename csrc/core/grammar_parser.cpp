#include "core/grammar_parser.h"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/char_set.h"
#include "core/grammar_scanner.h"

namespace mlx_sampling {
namespace {

using Kind = GrammarSyntax::Kind;
using Node = GrammarSyntax::Node;

constexpr uint32_t undefined = std::numeric_limits<uint32_t>::max();

class Parser {
 public:
  Parser(std::string_view text, const Vocabulary* vocabulary)
      : scanner_(text), vocabulary_(vocabulary) {}

  GrammarSyntax parse(std::string_view root);

 private:
  // A rule's name, where it first stands, and which rule it is once that is defined.
  struct Name {
    std::string_view text;
    size_t at;
    uint32_t rule;
  };

  // What a `*` would repeat: items_ from `begin` on. Not possible after the empty literal, say.
  struct Symbol {
    size_t begin;
    bool repeatable;
  };

  struct Bounds {
    uint32_t minimum;
    uint32_t maximum;
  };

  void parse_rule();
  void parse_alternatives(bool in_group);
  void parse_sequence(bool in_group);
  bool parse_symbol(bool in_group);
  void parse_literal();
  void parse_class();
  void parse_group();
  void parse_token();
  uint32_t token_id();
  void parse_reference();
  bool parse_repetition(bool in_group);
  Bounds parse_bounds(bool in_group);
  uint32_t parse_count();
  void repeat(size_t at, Bounds bounds);
  uint32_t name_id(std::string_view name, size_t at);
  void resolve(std::string_view root);

  uint32_t literal_character(size_t begin, const char* what);
  void check_scalar(uint32_t c, size_t at);
  void push_chars(std::span<const CharRange> set);
  void push(Node node, uint32_t height);
  // Makes one node of items_ from `begin` on, as children of a node of `kind`.
  void fold(size_t begin, Kind kind);

  GrammarScanner scanner_;
  const Vocabulary* vocabulary_;
  GrammarSyntax syntax_;
  std::vector<Name> names_;
  std::unordered_map<std::string_view, uint32_t> ids_;  // indices of names_
  std::vector<uint32_t> items_;                         // nodes that belong to no other yet
  std::vector<uint32_t> heights_;                       // of every node, the levels below it
  Symbol symbol_ = {0, false};
  uint32_t nesting_ = 0;
};

GrammarSyntax Parser::parse(std::string_view root) {
  scanner_.skip_space(true);
  while (!scanner_.at_end()) parse_rule();
  resolve(root);
  return std::move(syntax_);
}

void Parser::parse_rule() {
  const size_t at = scanner_.at();
  const std::string_view text = scanner_.name();
  if (text.empty()) scanner_.fail(at, "expected a rule's name, got ", scanner_.shown(at));
  scanner_.skip_space(false);
  if (!scanner_.take("::=")) {
    scanner_.fail(scanner_.at(), "expected \"::=\" after \"", text, "\", got ",
                  scanner_.shown(scanner_.at()));
  }
  const uint32_t name = name_id(text, at);
  if (names_[name].rule != undefined) {
    const auto& first = syntax_.rules[names_[name].rule];
    scanner_.fail(at, "rule \"", text, "\" is defined already, at ", first.line, ":", first.column);
  }
  const auto [line, column] = scanner_.place(at);
  names_[name].rule = static_cast<uint32_t>(syntax_.rules.size());
  syntax_.rules.push_back({std::string(text), 0, line, column});

  scanner_.skip_space(true);
  parse_alternatives(false);
  fold(0, Kind::sequence);
  syntax_.rules.back().body = items_.back();
  items_.clear();
  if (!scanner_.at_end() && !scanner_.take_line_break()) {
    scanner_.fail(scanner_.at(), "expected a symbol, \"|\" or a line break, got ",
                  scanner_.shown(scanner_.at()));
  }
  scanner_.skip_space(true);
}

// Leaves items that stand for a sequence: those of the one alternative, or a choice.
void Parser::parse_alternatives(bool in_group) {
  const size_t begin = items_.size();
  parse_sequence(in_group);
  if (scanner_.peek() != '|') return;
  fold(begin, Kind::sequence);
  while (scanner_.take("|")) {
    scanner_.skip_space(true);
    const size_t next = items_.size();
    parse_sequence(in_group);
    fold(next, Kind::sequence);
  }
  fold(begin, Kind::choice);
}

void Parser::parse_sequence(bool in_group) {
  symbol_ = {items_.size(), false};
  while (parse_symbol(in_group) || parse_repetition(in_group)) {
  }
}

bool Parser::parse_symbol(bool in_group) {
  const char next = scanner_.peek();
  const size_t begin = items_.size();
  if (next == '"') {
    parse_literal();
  } else if (next == '[') {
    parse_class();
  } else if (next == '(') {
    parse_group();
  } else if (next == '<' || next == '!') {
    parse_token();
  } else if (next == '.') {
    scanner_.take(".");
    push_chars(complement({}));
  } else if (is_name_char(next)) {
    parse_reference();
  } else {
    return false;
  }
  symbol_ = {begin, next == '(' || items_.size() > begin};
  scanner_.skip_space(in_group);
  return true;
}

void Parser::parse_literal() {
  const size_t begin = scanner_.at();
  scanner_.take("\"");
  while (!scanner_.take("\"")) {
    const size_t at = scanner_.at();
    const uint32_t c = literal_character(begin, "literal");
    check_scalar(c, at);
    const CharRange range = {c, c};
    push_chars({&range, 1});
  }
}

void Parser::parse_class() {
  const size_t begin = scanner_.at();
  scanner_.take("[");
  const bool negated = scanner_.take("^");
  std::vector<CharRange> ranges;
  while (!scanner_.take("]")) {
    const size_t at = scanner_.at();
    CharRange range = {literal_character(begin, "class"), 0};
    range.last = range.first;
    if (scanner_.peek() == '-' && scanner_.peek(1) != ']') {
      scanner_.take("-");
      range.last = literal_character(begin, "class");
    } else {
      check_scalar(range.first, at);
    }
    ranges.push_back(range);
  }
  if (ranges.empty()) return;
  const auto set = char_set(std::move(ranges));
  push_chars(negated ? complement(set) : set);
}

uint32_t Parser::literal_character(size_t begin, const char* what) {
  if (scanner_.at_end()) {
    scanner_.fail(begin, "the ", what, " that begins here is not closed: ", scanner_.shown(begin));
  }
  return scanner_.character();
}

void Parser::check_scalar(uint32_t c, size_t at) {
  if (!is_surrogate(c)) return;
  scanner_.fail(at, "expected a character, got half a surrogate pair (as one: \\UHHHHHHHH): ",
                scanner_.shown(at));
}

void Parser::parse_group() {
  const size_t begin = scanner_.at();
  if (++nesting_ > max_grammar_nesting) {
    scanner_.fail(begin, "nested more than ", max_grammar_nesting,
                  " deep: ", scanner_.shown(begin));
  }
  scanner_.take("(");
  scanner_.skip_space(true);
  parse_alternatives(true);
  if (!scanner_.take(")")) {
    const size_t at = scanner_.at();
    const auto [line, column] = scanner_.place(begin);
    scanner_.fail(at, "expected a symbol, \"|\" or the \")\" of the group at ", line, ":", column,
                  ", got ", scanner_.shown(at));
  }
  --nesting_;
}

void Parser::parse_token() {
  const size_t begin = scanner_.at();
  const bool negated = scanner_.take("!");
  const size_t at = scanner_.at();
  if (!scanner_.take("<")) {
    scanner_.fail(at, "expected a token in \"<\" and \">\" after \"!\", got ", scanner_.shown(at));
  }
  if (vocabulary_ == nullptr) {
    scanner_.fail(begin, "tokens need a vocabulary: ", scanner_.shown(begin));
  }
  uint32_t token;
  if (scanner_.take("[")) {
    token = token_id();
  } else {
    const std::string_view inside = scanner_.until('>');
    if (!scanner_.take(">")) {
      scanner_.fail(at, "the token that begins here is not closed: ", scanner_.shown(at));
    }
    const auto found = vocabulary_->find({inside.data() - 1, inside.size() + 2});
    if (!found) scanner_.fail(at, "no token of the vocabulary is ", scanner_.shown(at));
    token = *found;
  }
  const auto first = static_cast<uint32_t>(syntax_.token_ids.size());
  syntax_.token_ids.push_back(token);
  push({negated ? Kind::no_tokens : Kind::tokens, first, 1}, 0);
}

uint32_t Parser::token_id() {
  const size_t at = scanner_.at();
  if (!is_digit(scanner_.peek())) {
    scanner_.fail(at, "expected a token's id after \"<[\", got ", scanner_.shown(at));
  }
  const auto size = static_cast<uint32_t>(vocabulary_->size());
  const auto id = scanner_.number(size - 1);
  if (!id) scanner_.fail(at, "expected a token id below ", size, ", got ", scanner_.shown(at));
  const size_t end = scanner_.at();
  if (!scanner_.take("]>")) {
    scanner_.fail(end, "expected \"]>\" after the token's id, got ", scanner_.shown(end));
  }
  return *id;
}

void Parser::parse_reference() {
  const size_t at = scanner_.at();
  push({Kind::rule, name_id(scanner_.name(), at)}, 0);
}

bool Parser::parse_repetition(bool in_group) {
  const size_t at = scanner_.at();
  Bounds bounds;
  if (scanner_.take("*")) {
    bounds = {0, no_maximum};
  } else if (scanner_.take("+")) {
    bounds = {1, no_maximum};
  } else if (scanner_.take("?")) {
    bounds = {0, 1};
  } else if (scanner_.take("{")) {
    bounds = parse_bounds(in_group);
  } else {
    return false;
  }
  repeat(at, bounds);
  scanner_.skip_space(in_group);
  return true;
}

Parser::Bounds Parser::parse_bounds(bool in_group) {
  scanner_.skip_space(in_group);
  Bounds bounds;
  bounds.minimum = parse_count();
  bounds.maximum = bounds.minimum;
  scanner_.skip_space(in_group);
  if (scanner_.take("}")) return bounds;
  if (!scanner_.take(",")) {
    scanner_.fail(scanner_.at(), "expected \",\" or \"}\" after the count, got ",
                  scanner_.shown(scanner_.at()));
  }
  scanner_.skip_space(in_group);
  bounds.maximum = no_maximum;
  if (is_digit(scanner_.peek())) {
    const size_t at = scanner_.at();
    bounds.maximum = parse_count();
    if (bounds.maximum < bounds.minimum) {
      scanner_.fail(at, "expected a maximum of at least ", bounds.minimum, ", got ",
                    bounds.maximum);
    }
    scanner_.skip_space(in_group);
  }
  if (!scanner_.take("}")) {
    scanner_.fail(scanner_.at(), "expected a count or \"}\", got ", scanner_.shown(scanner_.at()));
  }
  return bounds;
}

uint32_t Parser::parse_count() {
  const size_t at = scanner_.at();
  if (!is_digit(scanner_.peek())) {
    scanner_.fail(at, "expected a count after \"{\", got ", scanner_.shown(at));
  }
  const auto count = scanner_.number(max_repetitions);
  if (!count) {
    scanner_.fail(at, "expected a count of at most ", max_repetitions, ", got ",
                  scanner_.shown(at));
  }
  return *count;
}

void Parser::repeat(size_t at, Bounds bounds) {
  if (!symbol_.repeatable) {
    scanner_.fail(at, "expected something to repeat before ", scanner_.shown(at));
  }
  if (bounds.minimum == 1 && bounds.maximum == 1) return;
  if (bounds.maximum == 0) {
    items_.resize(symbol_.begin);
    symbol_.repeatable = false;
    return;
  }
  fold(symbol_.begin, Kind::sequence);
  const uint32_t repeated = items_.back();
  const uint32_t height = heights_[repeated] + 1;
  if (height > max_grammar_nesting) {
    scanner_.fail(at, "nested more than ", max_grammar_nesting, " deep: ", scanner_.shown(at));
  }
  items_.pop_back();
  push({Kind::repeat, repeated, 0, bounds.minimum, bounds.maximum}, height);
}

uint32_t Parser::name_id(std::string_view name, size_t at) {
  const auto [found, is_new] = ids_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back({name, at, undefined});
  return found->second;
}

void Parser::resolve(std::string_view root) {
  for (const Name& name : names_) {
    if (name.rule == undefined) {
      scanner_.fail(name.at, "rule \"", name.text, "\" is not defined");
    }
  }
  const auto found = ids_.find(root);
  if (found == ids_.end()) scanner_.fail(0, "rule \"", root, "\" is not defined");
  syntax_.root = names_[found->second].rule;
  for (Node& node : syntax_.nodes) {
    if (node.kind == Kind::rule) node.first = names_[node.first].rule;
  }
}

void Parser::push_chars(std::span<const CharRange> set) {
  const auto first = static_cast<uint32_t>(syntax_.ranges.size());
  syntax_.ranges.insert(syntax_.ranges.end(), set.begin(), set.end());
  push({Kind::chars, first, static_cast<uint32_t>(set.size())}, 0);
}

void Parser::push(Node node, uint32_t height) {
  items_.push_back(static_cast<uint32_t>(syntax_.nodes.size()));
  syntax_.nodes.push_back(node);
  heights_.push_back(height);
}

void Parser::fold(size_t begin, Kind kind) {
  if (items_.size() == begin + 1) return;
  uint32_t height = 0;
  for (size_t i = begin; i < items_.size(); ++i) height = std::max(height, heights_[items_[i]]);
  const auto first = static_cast<uint32_t>(syntax_.children.size());
  syntax_.children.insert(syntax_.children.end(), items_.begin() + static_cast<ptrdiff_t>(begin),
                          items_.end());
  const auto count = static_cast<uint32_t>(items_.size() - begin);
  items_.resize(begin);
  push({kind, first, count}, height);
}

}  // namespace

GrammarSyntax parse_grammar(std::string_view text, std::string_view root,
                            const Vocabulary* vocabulary) {
  return Parser(text, vocabulary).parse(root);
}

}  // namespace mlx_sampling

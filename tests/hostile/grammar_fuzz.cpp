// A libFuzzer target: a grammar, a NUL, and a text. Whatever the bytes are, the parser answers or
// refuses; what it reads comes back from print; and what the matcher says of one text does not
// depend on how it was asked. A contradiction ends the program.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/grammar.h"
#include "core/grammar_matcher.h"
#include "core/grammar_parser.h"
#include "core/grammar_printer.h"

using namespace mlx_sampling;

namespace {

constexpr size_t longest_text = 64;

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

std::shared_ptr<const Vocabulary> vocabulary() {
  static const auto made = [] {
    const std::vector<std::string> texts = {"<s>",
                                            "</s>",
                                            "a",
                                            "b",
                                            "ab",
                                            "aa",
                                            "0",
                                            " ",
                                            "\n",
                                            "\"",
                                            "é",
                                            "\xC3",
                                            "\xA9",
                                            "a\xC3",
                                            "\xE2\x82",
                                            "€",
                                            std::string("\0", 1),
                                            "",
                                            "[]",
                                            "(",
                                            "x",
                                            "xa",
                                            "-",
                                            "\xF0\x9F",
                                            "\xFF"};
    const std::vector<uint32_t> control = {0};
    const std::vector<uint32_t> ends = {1};
    return std::make_shared<const Vocabulary>(texts, control, ends);
  }();
  return made;
}

std::optional<GrammarSyntax> parsed(std::string_view text) {
  try {
    return parse_grammar(text, "root", vocabulary().get());
  } catch (const GrammarError& error) {
    check(error.line >= 1 && error.column >= 1, "an error without a place");
    check(error.column <= text.size() + 1, "an error after the end");
    return std::nullopt;
  }
}

void check_mask(const GrammarMatcher& matcher) {
  const size_t size = vocabulary()->size();
  std::vector<uint32_t> words((size + 31) / 32, 0xFFFFFFFF);
  matcher.fill_bitmask(words);
  for (uint32_t token = 0; token < 32 * words.size(); ++token) {
    const bool is_set = (words[token / 32] >> token % 32 & 1) != 0;
    check(is_set == (token < size && matcher.can_accept(token)), "a bit that is no can_accept");
  }
}

// Takes the text byte by byte, and as one; looks back, and forward.
void check_text(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  GrammarMatcher bytewise(grammar);
  const size_t viable = bytewise.viable_prefix(text);
  size_t taken = 0;
  while (taken < text.size() && bytewise.accept_text(text.substr(taken, 1))) {
    if (taken % 8 == 0) check_mask(bytewise);
    ++taken;
  }
  check(taken == viable, "bytes that were not viable, or viable ones refused");
  check_mask(bytewise);
  GrammarMatcher whole(grammar);
  check(whole.accept_text(text) == (viable == text.size()), "the whole is not its bytes");
  if (viable < text.size()) {
    check(whole.steps() == 0, "refused, but something changed");
    check(viable == 0 || whole.accept_text(text.substr(0, viable)), "viable, but refused");
  }
  check(whole.is_completed() == bytewise.is_completed(), "completed or not, by how it was cut");
  for (uint32_t token = 0; token < vocabulary()->size(); ++token) {
    GrammarMatcher one(bytewise);
    const bool can = whole.can_accept(token);
    check(one.accept_token(token) == can, "can_accept is not accept_token");
    if (can) {
      one.rollback(one.steps());
      check(one.viable_prefix(text) == viable, "not what it was before, after a rollback");
    }
  }
  whole.forced_tokens(16);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = input.find('\0');
  const auto syntax = parsed(input.substr(0, nul));
  if (!syntax) return 0;
  const std::string printed = print_grammar(*syntax);
  const auto again = parsed(printed);
  check(again && print_grammar(*again) == printed, "print and parse do not agree");
  std::shared_ptr<const Grammar> grammar;
  try {
    grammar = Grammar::compile(*syntax, vocabulary());
  } catch (const std::invalid_argument&) {
    return 0;
  }
  const std::string_view text = nul == input.npos ? "" : input.substr(nul + 1, longest_text);
  try {
    check_text(grammar, text);
  } catch (const std::runtime_error&) {  // parses that take too much memory
  }
  return 0;
}

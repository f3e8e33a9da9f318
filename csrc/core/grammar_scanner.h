// Reads the text of a grammar from left to right: spaces, names, numbers, characters and their
// escapes; and says where it stands. What they are put together to is the parser's affair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "core/grammar_error.h"

namespace mlx_sampling {

inline constexpr size_t max_grammar_bytes = size_t{2} << 20;

class GrammarScanner {
 public:
  // Throws GrammarError where the text is longer than `max_grammar_bytes`, no UTF-8, or holds NUL.
  explicit GrammarScanner(std::string_view text);

  // A place in the text, in bytes.
  size_t at() const { return at_; }
  bool at_end() const { return at_ == text_.size(); }

  // The byte that stands `ahead` bytes on; 0 from the end on.
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  // Goes past `word` where it stands here.
  bool take(std::string_view word);

  // Goes past spaces, tabs and comments, and past line breaks where `line_breaks`.
  void skip_space(bool line_breaks);

  // Goes past one line break where it stands here.
  bool take_line_break();

  // Goes past what follows, and returns it: letters, digits and `-`, maybe none.
  std::string_view name();

  // Goes past digits, at least one. None where the number is above `limit`.
  std::optional<uint32_t> number(uint32_t limit);

  // Goes past all before `end`, or to the end of the text, and returns it.
  std::string_view until(char end);

  // Goes past a character or an escape; not called at the end. A surrogate's escape comes back as
  // it is; above max_code_point and unknown escapes are errors.
  uint32_t character();

  // Line and column of a place, from 1. Quick where places are asked for in rising order.
  struct Place {
    uint32_t line;
    uint32_t column;
  };
  Place place(size_t at);

  // What stands at a place, for errors: quoted, cut short, to the end of its line.
  std::string shown(size_t at) const;

  template <typename... Parts>
  [[noreturn]] void fail(size_t at, const Parts&... parts) {
    std::ostringstream message;
    (message << ... << parts);
    const auto [line, column] = place(at);
    throw GrammarError(line, column, message.str());
  }

 private:
  uint32_t hexadecimal(size_t digits);
  void check_text();

  std::string_view text_;
  size_t at_ = 0;
  size_t counted_ = 0;
  Place counted_place_ = {1, 1};
};

bool is_name_char(char c);
bool is_digit(char c);

}  // namespace mlx_sampling

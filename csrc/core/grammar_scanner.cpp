#include "core/grammar_scanner.h"

#include <iomanip>

#include "core/char_set.h"
#include "core/utf8.h"

namespace mlx_sampling {
namespace {

constexpr size_t shown_chars = 24;

bool is_line_break(char c) { return c == '\n' || c == '\r'; }

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// The value of a hexadecimal digit, or 16.
uint32_t hex_value(char c) {
  if ('0' <= c && c <= '9') return static_cast<uint32_t>(c - '0');
  if ('a' <= c && c <= 'f') return static_cast<uint32_t>(c - 'a') + 10;
  if ('A' <= c && c <= 'F') return static_cast<uint32_t>(c - 'A') + 10;
  return 16;
}

std::string hex(uint32_t value, int digits) {
  std::ostringstream text;
  text << std::hex << std::uppercase << std::setfill('0') << std::setw(digits) << value;
  return text.str();
}

}  // namespace

bool is_digit(char c) { return '0' <= c && c <= '9'; }

bool is_name_char(char c) {
  return is_digit(c) || c == '-' || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z');
}

GrammarScanner::GrammarScanner(std::string_view text) : text_(text) {
  if (text.size() > max_grammar_bytes) {
    fail(0, "expected a grammar of at most ", max_grammar_bytes, " bytes, got ", text.size());
  }
  check_text();
}

void GrammarScanner::check_text() {
  for (size_t at = 0; at < text_.size();) {
    const size_t length = decode_char(text_.substr(at)).length;
    if (length == 0)
      fail(at, "expected UTF-8, got byte 0x", hex(static_cast<uint8_t>(text_[at]), 2));
    if (text_[at] == '\0') fail(at, "expected text, got a NUL byte");
    at += length;
  }
}

bool GrammarScanner::take(std::string_view word) {
  if (!text_.substr(at_).starts_with(word)) return false;
  at_ += word.size();
  return true;
}

void GrammarScanner::skip_space(bool line_breaks) {
  for (;; ++at_) {
    const char c = peek();
    if (c == '#') {
      while (!at_end() && !is_line_break(peek())) ++at_;
      if (at_end() || !line_breaks) return;
    } else if (c != ' ' && c != '\t' && !(line_breaks && is_line_break(c))) {
      return;
    }
  }
}

bool GrammarScanner::take_line_break() { return take("\r\n") || take("\r") || take("\n"); }

std::string_view GrammarScanner::name() {
  const size_t begin = at_;
  while (is_name_char(peek())) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::optional<uint32_t> GrammarScanner::number(uint32_t limit) {
  uint64_t value = 0;
  bool above = false;
  for (; is_digit(peek()); ++at_) {
    value = value * 10 + static_cast<uint64_t>(peek() - '0');
    above = above || value > limit;
    if (above) value = 0;
  }
  if (above) return std::nullopt;
  return static_cast<uint32_t>(value);
}

std::string_view GrammarScanner::until(char end) {
  const size_t begin = at_;
  while (!at_end() && peek() != end) ++at_;
  return text_.substr(begin, at_ - begin);
}

uint32_t GrammarScanner::character() {
  const size_t begin = at_;
  if (!take("\\")) {
    const auto [code_point, length] = decode_char(text_.substr(at_));
    at_ += length;
    return code_point;
  }
  const char kind = peek();
  if (kind != '\0') ++at_;
  switch (kind) {
    case 'x':
      return hexadecimal(2);
    case 'u':
      return hexadecimal(4);
    case 'U':
      return hexadecimal(8);
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'n':
      return '\n';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
      return static_cast<uint32_t>(kind);
    default:
      fail(begin, "unknown escape ", shown(begin));
  }
}

uint32_t GrammarScanner::hexadecimal(size_t digits) {
  const size_t begin = at_ - 2;
  uint32_t value = 0;
  for (size_t i = 0; i < digits; ++i, ++at_) {
    const uint32_t digit = hex_value(peek());
    if (digit > 15) {
      fail(begin, "expected ", digits, " hexadecimal digits after ", text_.substr(begin, 2),
           ", got ", shown(begin + 2));
    }
    value = value << 4 | digit;
  }
  if (value > max_code_point) {
    fail(begin, "expected a code point up to U+10FFFF, got ", shown(begin));
  }
  return value;
}

GrammarScanner::Place GrammarScanner::place(size_t at) {
  if (at < counted_) {
    counted_ = 0;
    counted_place_ = {1, 1};
  }
  for (; counted_ < at; ++counted_) {
    const char c = text_[counted_];
    const bool crlf = c == '\r' && counted_ + 1 < text_.size() && text_[counted_ + 1] == '\n';
    if (is_line_break(c) && !crlf) {
      counted_place_ = {counted_place_.line + 1, 1};
    } else if (!is_continuation(c)) {
      ++counted_place_.column;
    }
  }
  return counted_place_;
}

std::string GrammarScanner::shown(size_t at) const {
  if (at >= text_.size()) return "the end";
  if (is_line_break(text_[at])) return "a line break";
  std::string shown = "\"";
  for (size_t chars = 0; at < text_.size() && !is_line_break(text_[at]); ++chars) {
    if (chars == shown_chars) return shown + "...\"";
    const size_t length = decode_char(text_.substr(at)).length;
    const auto byte = static_cast<uint8_t>(text_[at]);
    if (byte < 0x20 || byte == 0x7F) {
      shown += "\\x" + hex(byte, 2);
    } else {
      shown += text_.substr(at, length);
    }
    at += length;
  }
  return shown + "\"";
}

}  // namespace mlx_sampling

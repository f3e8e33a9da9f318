#include "core/grammar_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"

namespace mlx_sampling {
namespace {

// Bytes as a message may hold them, which is text in ASCII.
std::string shown(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    constexpr std::string_view digits = "0123456789abcdef";
    if (byte >= 0x20 && byte < 0x7f && c != '\\' && c != '"') {
      text += c;
    } else {
      (text += "\\x") += {digits[byte >> 4], digits[byte & 15]};
    }
  }
  return text;
}

[[noreturn]] void refuse_token(const Vocabulary& vocabulary, uint32_t token) {
  throw GrammarRefusal("[grammar] Expected a token that the grammar allows here, got " +
                       std::to_string(token) + " (\"" + shown(vocabulary.bytes(token)) + "\").");
}

}  // namespace

GrammarState::GrammarState(std::shared_ptr<const Grammar> grammar, bool masks_first,
                           std::shared_ptr<const GrammarTriggers> triggers)
    : grammar_(std::move(grammar)),
      triggers_(std::move(triggers)),
      masks_first_(masks_first),
      waiting_(triggers_ != nullptr),
      matcher_(grammar_) {
  if (grammar_->vocabulary() == nullptr) {
    refuse("[grammar] Expected a grammar with a vocabulary, got one for text alone.");
  }
  if (!triggers_) return;
  for (const uint32_t token : triggers_->tokens) {
    if (token >= vocabulary().size()) {
      refuse("[grammar_triggers] Expected token ids in [0, ", vocabulary().size(), "), got ", token,
             ".");
    }
    if (!matcher_.can_accept(token)) {
      refuse("[grammar_triggers] Expected tokens that the grammar can begin with, got ", token,
             ".");
    }
  }
}

void GrammarState::fill_bitmask(std::span<uint32_t> words) const {
  if (!waiting_) return matcher_.fill_bitmask(words);
  std::fill(words.begin(), words.end(), ~uint32_t{0});
  const size_t rest = vocabulary().size() % 32;
  if (rest != 0) words.back() = (uint32_t{1} << rest) - 1;
}

void GrammarState::accept(uint32_t token) {
  expect_token(token);
  if (!waiting_) {
    if (!matcher_.accept_token(token)) refuse_token(vocabulary(), token);
    tokens_.push_back(token);
    return;
  }
  const auto& starts = triggers_->tokens;
  if (std::find(starts.begin(), starts.end(), token) != starts.end()) {
    // The constructor has seen that the grammar can begin so.
    matcher_.accept_token(token);
    tokens_.assign(1, token);
    seen_.clear();
    waiting_ = false;
    return;
  }
  const size_t length = seen_.size();
  seen_ += vocabulary().bytes(token);
  tokens_.push_back(token);
  try {
    const auto start = triggers_->find ? triggers_->find(seen_) : std::nullopt;
    if (start) begin(*start);
  } catch (...) {
    tokens_.pop_back();
    seen_.resize(length);
    throw;
  }
}

void GrammarState::expect_token(uint32_t token) const {
  if (token < vocabulary().size()) return;
  refuse("[grammar] Expected a token id in [0, ", vocabulary().size(), "), got ", token, ".");
}

// The tokens from byte `start` of what was seen on are the grammar's, the first maybe in part.
void GrammarState::begin(size_t start) {
  if (start > seen_.size()) {
    refuse("[grammar_triggers] Expected a start within ", seen_.size(), " bytes, got ", start, ".");
  }
  size_t at = 0;
  size_t first = 0;
  while (first < tokens_.size() && at + vocabulary().bytes(tokens_[first]).size() <= start) {
    at += vocabulary().bytes(tokens_[first++]).size();
  }
  std::vector<uint32_t> tokens(tokens_.begin() + static_cast<ptrdiff_t>(first), tokens_.end());
  const size_t skipped = tokens.empty() ? 0 : start - at;
  GrammarMatcher matcher(grammar_);
  if (!follow(matcher, vocabulary(), tokens, skipped)) {
    throw GrammarRefusal(
        "[grammar] Expected what triggers the grammar to fit it, but it refuses: \"" +
        shown(std::string_view(seen_).substr(start)) + "\".");
  }
  matcher_ = std::move(matcher);
  tokens_ = std::move(tokens);
  skipped_ = skipped;
  seen_.clear();
  waiting_ = false;
}

bool GrammarState::follow(GrammarMatcher& matcher, const Vocabulary& vocabulary,
                          std::span<const uint32_t> tokens, size_t skipped) {
  if (skipped != 0 && !tokens.empty()) {
    const auto bytes = vocabulary.bytes(tokens.front());
    if (skipped >= bytes.size() || !matcher.accept_text(bytes.substr(skipped))) return false;
    tokens = tokens.subspan(1);
  }
  return std::all_of(tokens.begin(), tokens.end(),
                     [&](uint32_t token) { return matcher.accept_token(token); });
}

void GrammarState::reset() {
  matcher_.reset();
  waiting_ = triggers_ != nullptr;
  tokens_.clear();
  skipped_ = 0;
  seen_.clear();
}

void GrammarState::replay(std::span<const uint32_t> tokens, size_t skipped, bool waiting) {
  for (const uint32_t token : tokens) expect_token(token);
  if ((waiting || skipped != 0) && !triggers_) {
    refuse("[restore] Expected a snapshot of a grammar that is not lazy.");
  }
  GrammarState fresh(grammar_, masks_first_, triggers_);
  fresh.waiting_ = waiting;
  fresh.skipped_ = skipped;
  fresh.tokens_.assign(tokens.begin(), tokens.end());
  if (waiting) {
    for (const uint32_t token : tokens) fresh.seen_ += vocabulary().bytes(token);
  } else if (!follow(fresh.matcher_, vocabulary(), tokens, skipped)) {
    refuse("[restore] Expected tokens that fit the grammar: the snapshot is damaged.");
  }
  *this = std::move(fresh);
}

}  // namespace mlx_sampling

#include "core/grammar_matcher.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "core/error.h"

namespace mlx_sampling {
namespace {

constexpr uint32_t no_token = std::numeric_limits<uint32_t>::max();

// Steps whose sets are brought along when a request goes on in new ones; earlier sets are found
// again, from the start, when a rollback goes that far.
constexpr size_t steps_brought = 64;

}  // namespace

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), sets_(grammar_->sets()), set_(sets_->start()) {}

uint32_t GrammarMatcher::checked(uint32_t token) const {
  const Vocabulary* const vocabulary = grammar_->vocabulary();
  if (vocabulary == nullptr) {
    refuse("[grammar] Expected a grammar with a vocabulary, got one for texts only.");
  }
  if (token >= vocabulary->size()) {
    refuse("[token] Expected a token id in [0, ", vocabulary->size(), "), got ", token, ".");
  }
  return token;
}

const EarleySet* GrammarMatcher::after_bytes(const EarleySets& sets, const EarleySet* set,
                                             std::string_view bytes) const {
  const auto& class_of = grammar_->automaton().class_of;
  for (char byte : bytes) {
    set = sets.step(set, class_of[static_cast<uint8_t>(byte)]);
    if (set->is_dead()) break;
  }
  return set;
}

// Dead where the token does not match. For tokens that end nothing.
const EarleySet* GrammarMatcher::after_token(const EarleySets& sets, const EarleySet* set,
                                             uint32_t token) const {
  const Vocabulary& vocabulary = *grammar_->vocabulary();
  const EarleySet* const by_bytes =
      vocabulary.is_text(token) ? after_bytes(sets, set, vocabulary.bytes(token)) : sets.dead();
  return vocabulary.can_be_literal(token) ? sets.step_by_token(set, token, by_bytes) : by_bytes;
}

GrammarMatcher::View GrammarMatcher::view() const {
  if (!sets_->is_full()) return {sets_, set_};
  auto own = grammar_->fresh_sets();
  const EarleySet* const set = own->import({&set_, 1})[0];
  return {std::move(own), set};
}

// All sets of a request are of one EarleySets. A failure leaves them where they are.
void GrammarMatcher::move_on_when_full() {
  if (!sets_->is_full()) return;
  auto next = grammar_->sets();
  if (next == sets_) return;
  std::vector<const EarleySet*> sets = {set_};
  const size_t first = steps_.size() - std::min(steps_.size(), steps_brought);
  for (size_t i = first; i < steps_.size() && steps_[i].before != nullptr; ++i) {
    sets.push_back(steps_[i].before);
  }
  const auto imported = next->import(sets);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const bool brought = i >= first && i - first + 1 < imported.size();
    steps_[i].before = brought ? imported[i - first + 1] : nullptr;
  }
  set_ = imported[0];
  sets_ = std::move(next);
}

void GrammarMatcher::take(const EarleySet* next, uint32_t token, std::string_view text) {
  steps_.reserve(std::bit_ceil(steps_.size() + 1));
  texts_ += text;
  steps_.push_back({set_, texts_.size() - text.size(), token});
  set_ = next;
}

bool GrammarMatcher::accept_token(uint32_t token) {
  checked(token);
  if (terminated_) return false;
  move_on_when_full();
  if (grammar_->vocabulary()->is_end(token)) {
    if (!set_->completed) return false;
    take(set_, token, {});
    terminated_ = true;
    return true;
  }
  const EarleySet* const next = after_token(*sets_, set_, token);
  if (next->is_dead()) return false;
  take(next, token, {});
  return true;
}

bool GrammarMatcher::can_accept(uint32_t token) const {
  checked(token);
  if (terminated_) return false;
  if (grammar_->vocabulary()->is_end(token)) return set_->completed;
  if (!sets_->is_full()) return !after_token(*sets_, set_, token)->is_dead();
  const View from = view();
  return !after_token(*from.sets, from.set, token)->is_dead();
}

bool GrammarMatcher::accept_text(std::string_view bytes) {
  if (terminated_) return false;
  move_on_when_full();
  const EarleySet* const next = after_bytes(*sets_, set_, bytes);
  if (next->is_dead()) return false;
  take(next, no_token, bytes);
  return true;
}

size_t GrammarMatcher::viable_prefix(std::string_view bytes) const {
  if (terminated_) return 0;
  const auto& class_of = grammar_->automaton().class_of;
  View at = view();
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (at.sets->is_full()) {
      auto next = grammar_->fresh_sets();
      at.set = next->import({&at.set, 1})[0];
      at.sets = std::move(next);
    }
    at.set = at.sets->step(at.set, class_of[static_cast<uint8_t>(bytes[i])]);
    if (at.set->is_dead()) return i;
  }
  return bytes.size();
}

void GrammarMatcher::fill_bitmask(std::span<uint32_t> words) const {
  checked(0);
  const size_t expected = grammar_->tokens().words();
  if (words.size() != expected) {
    refuse("[words] Expected a bitmask of ", expected, " words, got ", words.size(), ".");
  }
  if (terminated_) {
    std::fill(words.begin(), words.end(), 0u);
    return;
  }
  const View from = view();
  mlx_sampling::fill_bitmask(*from.sets, grammar_->tokens(), from.set, words);
}

std::vector<uint32_t> GrammarMatcher::forced_tokens(size_t limit) const {
  std::vector<uint32_t> forced;
  GrammarMatcher ahead(*this);
  checked(0);
  std::vector<uint32_t> words(grammar_->tokens().words());
  while (forced.size() < limit && !ahead.terminated_) {
    ahead.fill_bitmask(words);
    uint32_t found = no_token;
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == 0) continue;
      if (found != no_token || !std::has_single_bit(words[i])) return forced;
      found = static_cast<uint32_t>(32 * i + std::countr_zero(words[i]));
    }
    if (found == no_token || !ahead.accept_token(found)) return forced;
    forced.push_back(found);
  }
  return forced;
}

GrammarMatcher::Step GrammarMatcher::step(size_t index) const {
  if (index >= steps_.size()) {
    refuse("[index] Expected a step in [0, ", steps_.size(), "), got ", index, ".");
  }
  const Taken& taken = steps_[index];
  const size_t end = index + 1 < steps_.size() ? steps_[index + 1].text : texts_.size();
  const bool is_text = taken.token == no_token;
  return {is_text, is_text ? 0 : taken.token,
          std::string_view(texts_).substr(taken.text, end - taken.text)};
}

void GrammarMatcher::rollback(size_t count) {
  if (count > steps_.size()) {
    refuse("[count] Expected at most ", steps_.size(), " steps to take back, got ", count, ".");
  }
  if (count == 0) return;
  const size_t left = steps_.size() - count;
  if (steps_[left].before == nullptr) {
    GrammarMatcher again(grammar_);
    for (size_t i = 0; i < left; ++i) {
      const Step taken = step(i);
      taken.is_text ? again.accept_text(taken.text) : again.accept_token(taken.token);
    }
    *this = std::move(again);
    return;
  }
  set_ = steps_[left].before;
  texts_.resize(steps_[left].text);
  steps_.resize(left);
  terminated_ = false;
}

void GrammarMatcher::reset() {
  auto sets = grammar_->sets();
  set_ = sets->start();
  sets_ = std::move(sets);
  steps_.clear();
  texts_.clear();
  terminated_ = false;
}

}  // namespace mlx_sampling

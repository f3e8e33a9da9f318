#include "core/grammar.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/grammar_builder.h"

namespace mlx_sampling {
namespace {

// Left recursion among more rules than this is refused: what it takes to follow it grows with
// their square.
constexpr uint32_t most_cyclic_rules = 256;

class Fingerprint {
 public:
  template <typename... Values>
  void add(Values... values) {
    (mix(static_cast<uint64_t>(values)), ...);
  }
  void add_text(std::string_view text) {
    add(text.size());
    for (char byte : text) add(static_cast<uint8_t>(byte));
  }
  uint64_t value() const { return hash_; }

 private:
  void mix(uint64_t value) {
    hash_ = (hash_ ^ value) * 0xFF51AFD7ED558CCDu;
    hash_ ^= hash_ >> 32;
  }

  uint64_t hash_ = 0x9E3779B97F4A7C15u;
};

uint64_t fingerprint_of(const GrammarSyntax& syntax, const Vocabulary* vocabulary) {
  Fingerprint print;
  for (const auto& node : syntax.nodes) {
    print.add(node.kind, node.first, node.count, node.minimum, node.maximum);
  }
  for (const auto& range : syntax.ranges) print.add(range.first, range.last);
  for (uint32_t token : syntax.token_ids) print.add(token);
  for (uint32_t child : syntax.children) print.add(child);
  for (const auto& rule : syntax.rules) {
    print.add_text(rule.name);
    print.add(rule.body);
  }
  print.add(syntax.root, vocabulary != nullptr ? vocabulary->fingerprint() : 0);
  return print.value();
}

void check_cycles(const GrammarAutomaton& automaton) {
  std::map<uint32_t, uint32_t> sizes;
  for (const auto& rule : automaton.rules) {
    if (!rule.cyclic || ++sizes[rule.component] <= most_cyclic_rules) continue;
    refuse("[grammar] Expected left recursion among at most ", most_cyclic_rules,
           " rules, got more.");
  }
}

}  // namespace

std::shared_ptr<const Grammar> Grammar::compile(const GrammarSyntax& syntax,
                                                std::shared_ptr<const Vocabulary> vocabulary) {
  auto automaton = std::make_shared<GrammarAutomaton>(compact(build(syntax, vocabulary.get())));
  merge_states(*automaton);
  order_rules(*automaton);
  check_cycles(*automaton);
  const uint64_t fingerprint = fingerprint_of(syntax, vocabulary.get());
  return std::shared_ptr<const Grammar>(
      new Grammar(std::move(automaton), std::move(vocabulary), fingerprint));
}

Grammar::Grammar(std::shared_ptr<const GrammarAutomaton> automaton,
                 std::shared_ptr<const Vocabulary> vocabulary, uint64_t fingerprint)
    : automaton_(std::move(automaton)),
      vocabulary_(std::move(vocabulary)),
      tokens_(vocabulary_ ? std::make_unique<GrammarTokens>(vocabulary_, *automaton_) : nullptr),
      fingerprint_(fingerprint),
      sets_(fresh_sets()) {}

std::shared_ptr<const EarleySets> Grammar::fresh_sets() const {
  const size_t longest = vocabulary_ ? vocabulary_->trie().longest() : 0;
  return std::make_shared<EarleySets>(automaton_, longest);
}

std::shared_ptr<const EarleySets> Grammar::sets() const {
  const std::lock_guard lock(mutex_);
  if (sets_->is_full()) sets_ = fresh_sets();
  return sets_;
}

}  // namespace mlx_sampling

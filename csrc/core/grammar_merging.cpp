// States of a rule that the same edges leave are one state: the first character of a string and
// those after it, say, which then need one mask and not two.
#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/fast_paths.h"
#include "core/grammar_builder.h"

namespace mlx_sampling {
namespace {

constexpr int rounds = 4;               // each sees what the one before has made equal
constexpr size_t most_states = 50'000;  // beyond, it takes longer than it is worth

using State = GrammarAutomaton::State;

auto as_tuple(const GrammarAutomaton::ByteEdge& e) { return std::tuple(e.first, e.last, e.target); }
auto as_tuple(const GrammarAutomaton::CallEdge& e) { return std::tuple(e.rule, e.target, e.tail); }
auto as_tuple(const GrammarAutomaton::TokenEdge& e) { return std::tuple(e.set, e.target); }

template <typename Edges>
bool same_edges(Edges a, Edges b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return as_tuple(x) == as_tuple(y); });
}

bool same(const GrammarAutomaton& automaton, uint32_t a, uint32_t b) {
  const State& x = automaton.states[a];
  const State& y = automaton.states[b];
  return std::tuple(x.rule, x.final, x.again) == std::tuple(y.rule, y.final, y.again) &&
         same_edges(automaton.bytes_of(a), automaton.bytes_of(b)) &&
         same_edges(automaton.calls_of(a), automaton.calls_of(b)) &&
         same_edges(automaton.tokens_of(a), automaton.tokens_of(b));
}

uint64_t hash_of(const GrammarAutomaton& automaton, uint32_t i) {
  const State& state = automaton.states[i];
  uint64_t hash = state.rule;
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 32;
  };
  mix((state.final ? 1 : 0) + (state.again ? 2 : 0));
  for (const auto& e : automaton.bytes_of(i)) mix(uint64_t{e.target} << 16 | e.first << 8 | e.last);
  for (const auto& e : automaton.calls_of(i)) mix(uint64_t{e.target} << 32 | e.rule);
  for (const auto& e : automaton.tokens_of(i)) mix(uint64_t{e.target} << 32 | e.set);
  return hash;
}

}  // namespace

void merge_states(GrammarAutomaton& automaton) {
  const auto size = static_cast<uint32_t>(automaton.states.size() - 1);
  if (size > most_states || !fast_paths()) return;
  std::vector<uint32_t> as(size);
  for (int round = 0; round < rounds; ++round) {
    std::unordered_map<uint64_t, uint32_t> known;
    bool changed = false;
    for (uint32_t i = 0; i < size; ++i) {
      as[i] = i;
      if (automaton.is_counted_start(i)) continue;
      const auto [at, is_new] = known.try_emplace(hash_of(automaton, i), i);
      if (!is_new && same(automaton, at->second, i)) as[i] = at->second;
    }
    const auto redirect = [&](auto& edges) {
      for (auto& edge : edges) {
        changed |= as[edge.target] != edge.target;
        edge.target = as[edge.target];
      }
    };
    redirect(automaton.byte_edges);
    redirect(automaton.call_edges);
    redirect(automaton.token_edges);
    if (!changed) return;
  }
}

}  // namespace mlx_sampling

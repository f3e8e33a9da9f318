#include "core/greedy_argmax.h"

#include <algorithm>
#include <bit>

#include "core/key_range.h"

namespace mlx_sampling {
namespace {

bool is_excluded(const GreedyRules& rules, size_t token) {
  return std::binary_search(rules.excluded.begin(), rules.excluded.end(), token);
}

bool has_excluded(const GreedyRules& rules, size_t begin, size_t end) {
  const auto first = std::lower_bound(rules.excluded.begin(), rules.excluded.end(), begin);
  return first != rules.excluded.end() && *first < end;
}

// Greatest key above `floor` of the chunk's eligible tokens; `floor` where there is none. One look
// per allowed token: rare, since a chunk gets here only if its greatest raw logit beats the best so
// far.
template <typename Bits>
typename Bits::Key greatest_eligible(const typename Bits::Word* words, size_t begin, size_t count,
                                     const GreedyRules& rules, const AllowedRow& allowed,
                                     typename Bits::Key floor) {
  for (size_t base = 0; base < count; base += 32) {
    const size_t in_word = std::min<size_t>(32, count - base);
    uint32_t bits = allowed.words == nullptr ? ~0u : allowed.word((begin + base) / 32);
    if (in_word < 32) bits &= (1u << in_word) - 1;
    for (; bits != 0; bits &= bits - 1) {
      const size_t i = base + static_cast<size_t>(std::countr_zero(bits));
      const auto key = Bits::key(words[i]);
      if (key > floor && !is_excluded(rules, begin + i)) floor = key;
    }
  }
  return floor;
}

}  // namespace

template <typename Bits>
uint32_t greedy_argmax_row(const RowView<typename Bits::Word>& row, const GreedyRules& rules,
                           const AllowedRow& allowed) {
  using Key = typename Bits::Key;
  const Key greatest_legal = Bits::inf_key - 1;
  const Key least_legal = -Bits::inf_key + (rules.neg_inf == NegInf::masked ? 0 : 1);
  Key best = -Bits::inf_key;
  size_t best_begin = row.width;
  bool nonfinite = false;
  for_each_chunk(row, [&](const typename Bits::Word* words, size_t begin, size_t count) {
    const KeyRange<Key> range = key_range(words, count);
    nonfinite |= range.greatest > greatest_legal || range.least < least_legal;
    Key greatest = range.greatest;
    if (nonfinite || greatest <= best) return;
    if (allowed.words != nullptr || has_excluded(rules, begin, begin + count)) {
      greatest = greatest_eligible<Bits>(words, begin, count, rules, allowed, best);
    }
    if (greatest > best) {
      best = greatest;
      best_begin = begin;
    }
  });
  if (nonfinite) return no_token;
  for (size_t i = best_begin; i < row.width; ++i) {
    if (Bits::key(row[i]) == best && allowed.allows(i) && !is_excluded(rules, i)) {
      return static_cast<uint32_t>(i);
    }
  }
  return no_token;
}

template uint32_t greedy_argmax_row<Float32Bits>(const RowView<uint32_t>&, const GreedyRules&,
                                                 const AllowedRow&);
template uint32_t greedy_argmax_row<Float16Bits>(const RowView<uint16_t>&, const GreedyRules&,
                                                 const AllowedRow&);
template uint32_t greedy_argmax_row<BFloat16Bits>(const RowView<uint16_t>&, const GreedyRules&,
                                                  const AllowedRow&);

}  // namespace mlx_sampling

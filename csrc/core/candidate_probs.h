// Probabilities of candidates, and the pick that takes them as weights.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/candidates.h"
#include "core/mt19937.h"
#include "core/reference.h"

namespace mlx_sampling {

// The greatest logit; the first one where candidates are marked as sorted, even if a stage has
// changed logits since. There is at least one candidate.
float greatest_logit(const Candidates& candidates);

// Writes exp(logit - greatest) to p and returns the sum, added up in the candidates' order in the
// type of the sum: float or double. Where `ends` is given, it gets the sum so far after every
// `exp_chunk` candidates.
inline constexpr size_t exp_chunk = 1024;
template <typename Sum>
Sum write_exps(Candidates& candidates, float greatest, std::vector<Sum>* ends = nullptr);

extern template float write_exps(Candidates&, float, std::vector<float>*);
extern template double write_exps(Candidates&, float, std::vector<double>*);

// Writes p, summed in float in the candidates' order. `stage` is who asks: throws
// std::invalid_argument in its name where there is no candidate. Logits of +inf, or all -inf, give
// NaN.
void softmax(Candidates& candidates, std::string_view stage);

// `softmax` after sorting the candidates.
void sorted_softmax(Candidates& candidates, Reference reference, std::string_view stage);

// Index drawn in proportion to p, as Mt19937::discrete has it, except that a uniform at the very
// edge never picks a mask. Throws std::invalid_argument in the name of `stage`, before any draw,
// where the probabilities are not finite.
size_t pick_by_p(const Candidates& candidates, Mt19937& stream, Reference reference,
                 std::string_view stage);

}  // namespace mlx_sampling

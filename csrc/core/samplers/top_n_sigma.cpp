#include "core/samplers/top_n_sigma.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/ordered_sum.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {
namespace {

constexpr float mask = -std::numeric_limits<float>::infinity();

// Logits that are no masks, some at a time: never none.
template <typename Visit>
void for_unmasked_chunks(const std::vector<Candidate>& data, Visit&& visit) {
  std::array<float, 1024> logits;
  size_t size = 0;
  for (const Candidate& candidate : data) {
    logits[size] = candidate.logit;
    size += candidate.logit == mask ? 0 : 1;
    if (size < logits.size()) continue;
    visit(logits.data(), size);
    size = 0;
  }
  if (size > 0) visit(logits.data(), size);
}

}  // namespace

TopNSigma::TopNSigma(double n) : n_(finite_float("top_n_sigma", "n", n)) {}

void TopNSigma::apply(Candidates& candidates, RequestState&) const {
  auto& data = candidates.data;
  if (n_ <= 0.0f || data.size() <= 1) return;
  float greatest = data[0].logit;
  float sum = 0;
  size_t count = 0;
  for_unmasked_chunks(data, [&](const float* logits, size_t size) {
    greatest = std::max(greatest, *std::max_element(logits, logits + size));
    for (size_t i = 0; i < size; ++i) sum += logits[i];
    count += size;
  });
  const float mean = count > 0 ? sum / static_cast<float>(count) : 0.0f;

  // Each square is a double, the sum is rounded to float every time.
  float squares = 0;
  for_unmasked_chunks(data, [&](const float* logits, size_t size) {
    squares = add_squares_in_order(squares, logits, size, mean);
  });
  const float deviation = count > 0 ? std::sqrt(squares / static_cast<float>(count)) : 0.0f;

  for (Candidate& candidate : data) {
    if (candidate.logit < greatest - (n_ * deviation)) candidate.logit = mask;
  }
}

}  // namespace mlx_sampling

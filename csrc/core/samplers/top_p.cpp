#include "core/samplers/top_p.h"

#include "core/candidate_order.h"
#include "core/candidate_probs.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {
namespace {

// More candidates than `many` are sorted as far as `first_look` at first, which is mostly enough.
// It is also seen in the result: equal logits have another order than after a whole sort.
constexpr size_t many = 1024;
constexpr size_t first_look = 256;

}  // namespace

TopP::TopP(double p, int64_t min_keep)
    : p_(finite_float("top_p", "p", p)), min_keep_(count_to_keep("top_p", min_keep)) {}

// How many of the sorted candidates are kept; one more than there are where the sum stays short.
size_t TopP::kept(const std::vector<Candidate>& greatest) const {
  float sum = 0;
  for (size_t i = 0; i < greatest.size(); ++i) {
    sum += greatest[i].p;
    if (sum >= p_ && i + 1 >= min_keep_) return i + 1;
  }
  return greatest.size() + 1;
}

void TopP::apply(Candidates& candidates, RequestState& state) const {
  if (p_ >= 1.0f) return;
  softmax(candidates, name());
  auto& data = candidates.data;
  if (!candidates.sorted && data.size() > many) {
    const auto first = greatest_by_buckets(candidates, first_look, state.reference());
    const size_t count = kept(first);
    if (count <= first.size()) {
      data.assign(first.begin(), first.begin() + static_cast<ptrdiff_t>(count));
      candidates.sorted = true;
      return;
    }
  }
  sort_candidates(candidates, state.reference());
  const size_t count = kept(data);
  if (count < data.size()) data.resize(count);
}

}  // namespace mlx_sampling

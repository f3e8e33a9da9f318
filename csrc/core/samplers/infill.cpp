#include "core/samplers/infill.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "core/candidate_probs.h"
#include "core/error.h"

namespace mlx_sampling {
namespace {

constexpr float least_merged_p = 0.2f;

bool is_mask(const Candidate& candidate) {
  return candidate.logit == -std::numeric_limits<float>::infinity();
}

// Drops the candidates that `keep` refuses; returns the p of the others, summed.
template <typename Keep>
float keep_only(std::vector<Candidate>& data, Keep keep) {
  float sum = 0;
  size_t kept = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    if (!keep(data[i])) continue;
    sum += data[i].p;
    data[kept++] = data[i];
  }
  data.resize(kept);
  return sum;
}

void divide_p(std::vector<Candidate>& data, float sum) {
  for (Candidate& candidate : data) candidate.p /= sum;
}

// The texts of candidates in order, so that those with a common beginning stand together.
class TextOrder {
 public:
  TextOrder(const std::vector<Candidate>& data, const std::vector<std::string>& texts) {
    texts_.resize(data.size());
    for (size_t i = 0; i < data.size(); ++i) {
      if (data[i].id < texts.size()) texts_[i] = texts[data[i].id];
      if (!texts_[i].empty()) order_.push_back(i);
    }
    std::sort(order_.begin(), order_.end(),
              [this](size_t a, size_t b) { return texts_[a] < texts_[b]; });
  }

  // Ascending indices of the other candidates whose text begins with that of candidate `i`.
  std::vector<size_t> extensions(size_t i) const {
    std::vector<size_t> found;
    if (texts_[i].empty()) return found;
    auto at =
        std::lower_bound(order_.begin(), order_.end(), texts_[i],
                         [this](size_t a, std::string_view text) { return texts_[a] < text; });
    for (; at != order_.end() && texts_[*at].starts_with(texts_[i]); ++at) {
      if (*at != i) found.push_back(*at);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::vector<std::string_view> texts_;
  std::vector<size_t> order_;
};

}  // namespace

Infill::Infill(InfillTokens tokens) : tokens_(std::move(tokens)) {
  if (!tokens_.texts || tokens_.texts->empty()) {
    refuse("[infill] Expected the texts of the vocabulary, got none.");
  }
  end_ids_.insert(tokens_.end_of_generation.begin(), tokens_.end_of_generation.end());
}

bool Infill::ending_is_likely(const std::vector<Candidate>& data) const {
  float end_sum = 0;
  float text_sum = 0;
  for (const Candidate& candidate : data) (ends(candidate) ? end_sum : text_sum) += candidate.p;
  return 3 * end_sum * static_cast<float>(data.size()) > text_sum;
}

// Each pair of which one text begins with the other becomes one: the likelier of the two as they
// stand by then. The other one keeps its place as a mask.
void Infill::merge_prefixes(std::vector<Candidate>& data) const {
  const TextOrder order(data, *tokens_.texts);
  for (size_t i = 0; i < data.size(); ++i) {
    if (is_mask(data[i])) continue;
    for (const size_t other : order.extensions(i)) {
      if (is_mask(data[other])) continue;
      const bool other_wins = data[other].p > data[i].p;
      Candidate& winner = data[other_wins ? other : i];
      Candidate& loser = data[other_wins ? i : other];
      winner.p += loser.p;
      loser.p = 0;
      loser.logit = -std::numeric_limits<float>::infinity();
      if (other_wins) break;
    }
  }
}

void Infill::apply(Candidates& candidates, RequestState& state) const {
  sorted_softmax(candidates, state.reference(), name());
  auto& data = candidates.data;
  if (ending_is_likely(data)) {
    divide_p(data, keep_only(data, [this](const Candidate& c) { return ends(c); }));
    return;
  }

  merge_prefixes(data);
  const Candidate first = data.front();
  size_t texts_left = 0;
  float sum = keep_only(data, [&](const Candidate& c) {
    const bool end = ends(c);
    const bool keep = end || !(c.p < least_merged_p);
    texts_left += keep && !end;
    return keep;
  });
  if (texts_left == 0) {
    // Only the id and the logit are new; p is what the first place has.
    data.resize(1, first);
    data.front().id = tokens_.end;
    data.front().logit = 1;
    return;
  }
  divide_p(data, sum);

  const auto threshold = static_cast<float>(1.0 / static_cast<double>(texts_left + 1));
  sum = keep_only(data, [&](const Candidate& c) { return ends(c) || !(c.p < threshold); });
  divide_p(data, sum);
}

}  // namespace mlx_sampling

#include "core/samplers/mirostat.h"

#include <algorithm>
#include <cmath>

#include "core/bucket_order.h"
#include "core/candidate_order.h"
#include "core/candidate_probs.h"
#include "core/error.h"
#include "core/float_to_int.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {
namespace {

int64_t at_least_one(std::string_view parameter, int64_t value) {
  if (value >= 1) return value;
  refuse("[mirostat] Expected ", parameter, " >= 1, got ", value, ".");
}

// The exponent of the power law through the first m candidates.
float estimate_exponent(const std::vector<Candidate>& data, size_t m) {
  float products = 0;
  float squares = 0;
  for (size_t i = 0; i + 1 < m && i + 1 < data.size(); ++i) {
    const float t = std::log(static_cast<float>(i + 2) / static_cast<float>(i + 1));
    const float b = std::log(data[i].p / data[i + 1].p);
    products += t * b;
    squares += t * t;
  }
  return products / squares;
}

}  // namespace

MirostatBase::MirostatBase(std::string_view name, double tau, double eta)
    : tau_(finite_float(name, "tau", tau)), eta_(finite_float(name, "eta", eta)) {}

float MirostatBase::mu(const RequestState& state) const {
  return state.mirostat_mu.value_or(2.0f * tau_);
}

void MirostatBase::apply_row(std::span<const float> row, Candidates& candidates,
                             RequestState& state) const {
  if (BucketOrder::worth_while_for(row.size()) &&
      keep_lazily(row, nullptr, mu(state), candidates, state.reference())) {
    pick(candidates, state);
    return;
  }
  Stage::apply_row(row, candidates, state);
}

void MirostatBase::apply(Candidates& candidates, RequestState& state) const {
  cut(candidates, state);
  pick(candidates, state);
}

void MirostatBase::weigh(Candidates& candidates, RequestState& state) const {
  cut(candidates, state);
  sorted_softmax(candidates, state.reference(), name());
}

void MirostatBase::record_pick(const Candidates& candidates, size_t picked,
                               RequestState& state) const {
  const float surprise = -std::log2(candidates.data[picked].p);
  const float error = surprise - tau_;
  state.mirostat_mu = mu(state) - eta_ * error;
}

// Drops what is beyond mu.
void MirostatBase::cut(Candidates& candidates, RequestState& state) const {
  if (!candidates.sorted && BucketOrder::worth_while_for(candidates.data.size())) {
    const LogitsAndIds columns = logits_and_ids(candidates);
    if (keep_lazily(columns.logits, columns.ids, mu(state), candidates, state.reference())) return;
  }
  sorted_softmax(candidates, state.reference(), name());
  truncate(candidates, mu(state));
}

void MirostatBase::pick(Candidates& candidates, RequestState& state) const {
  const Reference reference = state.reference();
  sorted_softmax(candidates, reference, name());
  const size_t picked = pick_by_p(candidates, state.streams.mirostat, reference, name());
  candidates.selected = static_cast<int64_t>(picked);
  record_pick(candidates, picked, state);
}

Mirostat::Mirostat(double tau, double eta, int64_t vocab_size, int64_t m)
    : MirostatBase("mirostat", tau, eta),
      vocab_size_(static_cast<float>(at_least_one("vocab_size", vocab_size))),
      m_(static_cast<size_t>(at_least_one("m", m))) {}

void Mirostat::truncate(Candidates& candidates, float mu) const {
  const float exponent = estimate_exponent(candidates.data, m_);
  const float excess = exponent - 1;
  // NaN for a single candidate, and infinite where a probability is 0: then one stays.
  const float k =
      std::pow((excess * std::pow(2.0f, mu)) / (1 - std::pow(vocab_size_, -excess)), 1 / exponent);
  const auto count = static_cast<size_t>(std::max(truncate_as_x86(k), 1));
  if (count < candidates.data.size()) candidates.data.resize(count);
}

MirostatV2::MirostatV2(double tau, double eta) : MirostatBase("mirostat_v2", tau, eta) {}

bool MirostatV2::keep_lazily(std::span<const float> logits, const uint32_t* ids, float mu,
                             Candidates& candidates, Reference reference) const {
  BucketOrder order(logits, ids, reference);
  if (!order.usable()) return false;
  auto& data = candidates.data;
  const float sum = order.softmax_sum();
  data.clear();
  bool within = true;
  for (size_t b = 0; b < order.bucket_count() && within; ++b) {
    for (const Keyed& element : order.sorted(b)) {
      const float p = std::exp(order.logit(element) - order.greatest()) / sum;
      within = !(-std::log2(p) > mu);
      if (!within && !data.empty()) break;
      data.push_back(order.candidate(element));
      if (!within) break;
    }
  }
  candidates.sorted = true;
  return true;
}

void MirostatV2::truncate(Candidates& candidates, float mu) const {
  auto& data = candidates.data;
  size_t count = 0;
  while (count < data.size() && !(-std::log2(data[count].p) > mu)) ++count;
  data.resize(std::max<size_t>(count, 1));
}

}  // namespace mlx_sampling

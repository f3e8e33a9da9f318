#include "core/speculative.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "core/clones.h"
#include "core/error.h"
#include "core/fast_paths.h"
#include "core/keyed.h"
#include "core/ordered_sum.h"
#include "core/radix_sort.h"
#include "core/row_chunks.h"

namespace mlx_sampling {
namespace {

constexpr size_t chunk = 1024;
constexpr size_t max_vocab_size = std::numeric_limits<int32_t>::max();

struct Scan {
  float sum;
  bool legal;  // no NaN, infinity or negative number; -0.0 is none
};

// Of a chunk of probabilities. The sum is for a comparison with a tolerance: any order will
// do.
// Vectors by name: left to itself the compiler adds the lanes of each up one after the other.
MLX_SAMPLING_CLONES Scan scan(const float* probs, size_t count) {
  constexpr size_t width = 16;
  using Floats = float __attribute__((vector_size(4 * width)));
  using Words = uint32_t __attribute__((vector_size(4 * width)));
  constexpr uint32_t greatest = std::bit_cast<uint32_t>(std::numeric_limits<float>::max());
  Floats sums{};
  Words illegal{};
  const auto look = [&](const Floats& read) {
    const Floats prob = read + 0.0f;  // -0.0 becomes 0.0
    Words bits;
    std::memcpy(&bits, &prob, sizeof(bits));
    illegal |= reinterpret_cast<Words>(bits > greatest);
    sums += prob;
  };
  Floats read;
  size_t i = 0;
  for (; i + width <= count; i += width) {
    std::memcpy(&read, probs + i, sizeof(read));
    look(read);
  }
  read = Floats{};
  std::memcpy(&read, probs + i, (count - i) * sizeof(float));
  look(read);
  Scan result{0, true};
  for (size_t lane = 0; lane < width; ++lane) {
    result.sum += sums[lane];
    result.legal &= illegal[lane] == 0;
  }
  return result;
}

[[noreturn]] void refuse_prob(const std::string& name, const TokenProbs& probs) {
  size_t i = 0;
  while (std::isfinite(probs.probs[i]) && probs.probs[i] >= 0) ++i;
  refuse("[", name, "] Expected finite probabilities >= 0, got ", probs.probs[i], " for token ",
         probs.id(i), ".");
}

}  // namespace

void check_sum(const std::string& name, const TokenProbs& probs) {
  double sum = 0;
  bool legal = true;
  const RowView<float> row{probs.probs.data(), 1, probs.probs.size()};
  for_each_chunk(row, [&](const float* words, size_t, size_t count) {
    const Scan found = scan(words, count);
    sum += found.sum;
    legal &= found.legal;
  });
  if (!legal) refuse_prob(name, probs);
  if (std::abs(sum - 1) <= sum_tolerance) return;
  refuse("[", name, "] Expected probabilities that add up to 1 within ", sum_tolerance, ", got ",
         sum, ".");
}

namespace {

// Positions of a distribution by rising id.
class ById {
 public:
  explicit ById(const TokenProbs& probs) : probs_(probs) {
    const auto& ids = probs.ids;
    if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end()) return;
    sorted_.resize(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      sorted_[i] = {static_cast<int32_t>(ids[i]), static_cast<uint32_t>(i)};
    }
    std::vector<Keyed> scratch(ids.size());
    sort_by_key(sorted_, scratch);
  }

  size_t size() const { return probs_.probs.size(); }
  size_t position(size_t i) const { return sorted_.empty() ? i : sorted_[i].id; }
  uint32_t id(size_t i) const { return probs_.id(position(i)); }
  float prob(size_t i) const { return probs_.probs[position(i)]; }

 private:
  TokenProbs probs_;
  std::vector<Keyed> sorted_;  // empty where the positions are in order themselves
};

void check_ids(const std::string& name, const TokenProbs& probs, size_t vocab_size) {
  if (probs.dense()) {
    if (probs.probs.size() == vocab_size) return;
    refuse("[", name, "] Expected ", vocab_size, " probabilities, as in the other rows, got ",
           probs.probs.size(), ".");
  }
  if (probs.probs.size() != probs.ids.size()) {
    refuse("[", name, "] Expected a probability for each of ", probs.ids.size(), " ids, got ",
           probs.probs.size(), ".");
  }
  for (const uint32_t id : probs.ids) {
    if (id >= vocab_size) {
      refuse("[", name, "] Expected token ids in [0, ", vocab_size, "), got ", id, ".");
    }
  }
  const ById by_id(probs);
  for (size_t i = 1; i < by_id.size(); ++i) {
    if (by_id.id(i) != by_id.id(i - 1)) continue;
    refuse("[", name, "] Expected unique token ids, got ", by_id.id(i), " twice.");
  }
}

float prob_of(const TokenProbs& probs, uint32_t token) {
  if (probs.dense()) return token < probs.probs.size() ? probs.probs[token] : 0.0f;
  const auto found = std::find(probs.ids.begin(), probs.ids.end(), token);
  return found == probs.ids.end() ? 0.0f : probs.probs[found - probs.ids.begin()];
}

MLX_SAMPLING_CLONES void subtract(const float* p, const float* q, size_t count, float* residual) {
  for (size_t i = 0; i < count; ++i) {
    const float difference = p[i] - q[i];
    residual[i] = difference > 0 ? difference : 0.0f;
  }
}

MLX_SAMPLING_CLONES void divide(float* values, size_t count, float divisor) {
  for (size_t i = 0; i < count; ++i) values[i] /= divisor;
}

// max(p - q, 0) by rising id.
void residuals_by_id(const ById& target, const ById& draft, float* residual) {
  size_t at = 0;
  for (size_t i = 0; i < target.size(); ++i) {
    const uint32_t id = target.id(i);
    while (at < draft.size() && draft.id(at) < id) ++at;
    const float q = at < draft.size() && draft.id(at) == id ? draft.prob(at) : 0.0f;
    residual[i] = std::max(target.prob(i) - q, 0.0f);
  }
}

// The running sum after every chunk, one addition after the other.
std::vector<double> running_sums(std::span<const float> weights) {
  std::vector<double> ends((weights.size() + chunk - 1) / chunk);
  double sum = 0;
  for (size_t c = 0; c < ends.size(); ++c) {  // without a call, which would put the sum in memory
    const size_t end = std::min((c + 1) * chunk, weights.size());
    for (size_t i = c * chunk; i < end; ++i) sum += weights[i];
    ends[c] = sum;
  }
  return ends;
}

// Of at most `chunk` weights, in any order.
MLX_SAMPLING_CLONES double sum_of(const float* weights, size_t count) {
  constexpr size_t width = 8;
  std::array<double, width> sums{};
  size_t i = 0;
  for (; i + width <= count; i += width) {
    for (size_t lane = 0; lane < width; ++lane) sums[lane] += weights[i + lane];
  }
  for (size_t lane = 0; i + lane < count; ++lane) sums[lane] += weights[i + lane];
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return sum;
}

// The place that a draw falls on, from sums in another order than the rule's, where it is beyond
// doubt: n additions of weights >= 0 in double, in whatever order, are off by less than n units of
// rounding of the total. None, with the words drawn, where the target is that close to a neighbour.
std::optional<size_t> certain_place(std::span<const float> weights, Mt19937& stream) {
  thread_local std::vector<double> ends;
  ends.clear();
  double total = 0;
  for (size_t begin = 0; begin < weights.size(); begin += chunk) {
    total += sum_of(weights.data() + begin, std::min(chunk, weights.size() - begin));
    ends.push_back(total);
  }
  if (!(total > 0 && std::isfinite(total))) return std::nullopt;
  const double target = total * stream.uniform_f64(Reference::libcxx);
  const double error =
      4.0 * static_cast<double>(weights.size()) * std::numeric_limits<double>::epsilon() * total;
  size_t at = 0;
  while (at + 1 < ends.size() && !(ends[at] > target + error)) ++at;
  double running = at == 0 ? 0.0 : ends[at - 1];
  for (size_t i = at * chunk; i < std::min((at + 1) * chunk, weights.size()); ++i) {
    const double before = running;
    running += weights[i];
    if (running < target - error) continue;
    const bool certain = before < target - error && running > target + error;
    return certain ? std::optional(i) : std::nullopt;
  }
  return std::nullopt;
}

// The residual of a target, normalised, in the target's order; false where it is 0 everywhere.
bool normalised_residual(const TokenProbs& target, const TokenProbs& draft,
                         std::vector<float>& residual) {
  const size_t count = target.probs.size();
  residual.resize(count);
  if (target.dense() && draft.dense()) {
    subtract(target.probs.data(), draft.probs.data(), count, residual.data());
    const float sum = add_in_order(0.0f, residual.data(), count);
    if (sum > 0) divide(residual.data(), count, sum);
    return sum > 0;
  }
  const ById target_by_id(target);
  std::vector<float> by_id(count);
  residuals_by_id(target_by_id, ById(draft), by_id.data());
  const float sum = add_in_order(0.0f, by_id.data(), count);
  if (!(sum > 0)) return false;
  for (size_t i = 0; i < count; ++i) residual[target_by_id.position(i)] = by_id[i] / sum;
  return true;
}

std::string row_name(const char* name, size_t row) {
  return std::string(name) + "[" + std::to_string(row) + "]";
}

// V where a row is dense, so that all have to agree.
size_t vocab_size_of(std::span<const TokenProbs> drafts, std::span<const TokenProbs> targets) {
  for (const auto& rows : {targets, drafts}) {
    for (const TokenProbs& row : rows) {
      if (row.dense() && !row.probs.empty()) return row.probs.size();
    }
  }
  return max_vocab_size;
}

}  // namespace

void check_probs(const std::string& name, const TokenProbs& probs, size_t vocab_size) {
  if (probs.probs.empty()) refuse("[", name, "] Expected at least one probability, got none.");
  check_ids(name, probs, vocab_size);
  check_sum(name, probs);
}

TokenProbs in_order(const std::string& name, std::span<const float> row,
                    std::span<const uint32_t> order, std::vector<float>& storage) {
  if (order.empty()) refuse("[", name, "] Expected at least one token id, got none.");
  storage.assign(order.size(), 0.0f);
  check_ids(name, {storage, order}, row.size());
  for (size_t i = 0; i < order.size(); ++i) storage[i] = row[order[i]];
  const auto positive = [](float prob) { return prob > 0; };
  const auto listed = std::count_if(storage.begin(), storage.end(), positive);
  if (listed != std::count_if(row.begin(), row.end(), positive)) {
    size_t missing = 0;
    while (row[missing] <= 0 || std::find(order.begin(), order.end(), missing) != order.end()) {
      ++missing;
    }
    refuse("[", name, "] Expected every token of positive probability, but token ", missing,
           " is missing.");
  }
  return {storage, order};
}

bool keeps(const TokenProbs& target, const TokenProbs& draft, uint32_t token, Mt19937& stream) {
  const float p = prob_of(target, token);
  const float q = prob_of(draft, token);
  // The same rule whatever library the request's own draws follow.
  const float u = stream.uniform_f32(Reference::libcxx);
  const float ratio = q > 0 ? std::min(p / q, 1.0f) : 1.0f;
  return p > 0 && u <= ratio;
}

uint32_t draw_token(const TokenProbs& probs, Mt19937& stream) {
  const std::span<const float> weights = probs.probs;
  if (fast_paths() && weights.size() >= chunk) {
    const Mt19937 before = stream;
    if (const auto place = certain_place(weights, stream)) return probs.id(*place);
    stream = before;
  }
  const std::vector<double> ends = running_sums(weights);
  const double total = ends.empty() ? 0.0 : ends.back();
  if (!(total > 0 && std::isfinite(total))) {
    refuse("[probs] Expected probabilities with a positive finite sum, got ", total, ".");
  }
  const double target = total * stream.uniform_f64(Reference::libcxx);
  // The first chunk that ends at the target or above, and has a positive weight: it ends above the
  // chunk before it, or the target is 0 and so is every weight so far.
  size_t at = 0;
  while (at + 1 < ends.size() && !(ends[at] >= target && ends[at] > 0)) ++at;
  double running = at == 0 ? 0.0 : ends[at - 1];
  for (size_t i = at * chunk; i < weights.size(); ++i) {
    running += weights[i];
    if (running >= target && weights[i] > 0) return probs.id(i);
  }
  size_t last = weights.size() - 1;
  while (!(weights[last] > 0)) --last;
  return probs.id(last);
}

uint32_t draw_replacement(const TokenProbs& target, const TokenProbs& draft, Mt19937& stream) {
  thread_local std::vector<float> residual;
  if (!normalised_residual(target, draft, residual)) return draw_token(target, stream);
  return draw_token({residual, target.ids}, stream);
}

SpeculativeDecision verify_draft(std::span<const uint32_t> tokens,
                                 std::span<const TokenProbs> drafts,
                                 std::span<const TokenProbs> targets, Mt19937& stream) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (keeps(targets[i], drafts[i], tokens[i], stream)) continue;
    return {i, draw_replacement(targets[i], drafts[i], stream), true};
  }
  return {tokens.size(), draw_token(targets.back(), stream), false};
}

void check_draft(std::span<const uint32_t> tokens, std::span<const TokenProbs> drafts,
                 std::span<const TokenProbs> targets) {
  if (drafts.size() != tokens.size()) {
    refuse("[draft_probs] Expected a row for each of ", tokens.size(), " draft tokens, got ",
           drafts.size(), " rows.");
  }
  if (targets.size() != tokens.size() + 1) {
    refuse("[target_probs] Expected ", tokens.size() + 1, " rows, one more than draft tokens, got ",
           targets.size(), ".");
  }
  check_tokens(tokens, vocab_size_of(drafts, targets));
  check_rows(drafts, targets);
}

void check_tokens(std::span<const uint32_t> tokens, size_t vocab_size) {
  for (const uint32_t token : tokens) {
    if (token < vocab_size) continue;
    refuse("[draft_tokens] Expected token ids in [0, ", vocab_size, "), got ", token, ".");
  }
}

void check_rows(std::span<const TokenProbs> drafts, std::span<const TokenProbs> targets) {
  const size_t vocab_size = vocab_size_of(drafts, targets);
  for (size_t i = 0; i < drafts.size(); ++i) {
    check_probs(row_name("draft_probs", i), drafts[i], vocab_size);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    check_probs(row_name("target_probs", i), targets[i], vocab_size);
  }
}

}  // namespace mlx_sampling

// The token at one place of what TypicalP left open.
#include <cmath>
#include <span>
#include <vector>

#include "core/exp_floats.h"
#include "core/ordered_sum.h"
#include "core/reference_order.h"
#include "core/row_front.h"
#include "core/run_order.h"
#include "core/samplers/typical_p.h"
#include "core/sort_scratch.h"

namespace mlx_sampling {
namespace {

// The sum in order of one value for each candidate, where those of a run share one.
float sum_of_runs(std::span<const LogitRun> runs, std::span<const float> values,
                  std::vector<float>& memory) {
  memory.clear();
  for (size_t i = 0; i < runs.size(); ++i) memory.insert(memory.end(), runs[i].count, values[i]);
  return add_in_order(0.0f, memory.data(), memory.size());
}

// The keys of all distances, with ranks for ids.
std::vector<KeyRun> distances_of(std::span<const LogitRun> runs, float greatest) {
  SortScratch& scratch = sort_scratch();
  std::vector<float> below;
  for (const LogitRun& run : runs) below.push_back(logit_of({run.key, 0}) - greatest);
  std::vector<float> probs(runs.size());
  exp_floats(below.data(), below.size(), probs.data());
  const float sum = sum_of_runs(runs, probs, scratch.exps);
  for (float& p : probs) p /= sum;
  std::vector<float> logs;
  std::vector<float> terms;
  for (const float p : probs) {
    logs.push_back(std::log(p));
    terms.push_back(-p * logs.back());
  }
  const float entropy = sum_of_runs(runs, terms, scratch.exps);
  std::vector<KeyRun> distances;
  uint32_t rank = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    distances.push_back({rising_key(std::abs(-logs[i] - entropy)), rank, 1, runs[i].count});
    rank += runs[i].count;
  }
  return distances;
}

// What the library's sort by distance has at a place.
size_t id_of_place(std::span<const KeyRun> distances, size_t place, Reference reference) {
  if (reference == Reference::libstdcxx) return element_of_runs_at_rank(distances, place).id;
  std::vector<KeyedInteger>& order = sort_scratch().order;
  order.clear();
  for (const KeyRun& run : distances) {
    for (uint32_t i = 0; i < run.count; ++i) order.push_back({{run.key, run.first + i}});
  }
  return reference_at_rank(reference, std::span(order), place).id;
}

}  // namespace

// Sorts as far as the place says: the distances to find its rank among the logits, and then the one
// bucket that has the rank.
uint32_t TypicalP::id_at(size_t place, const RequestState& state) const {
  const Candidates& candidates = state.candidates;
  if (candidates.ties[place] == Tie::mixed) return no_token;
  if (candidates.ties[place] == Tie::none) return candidates.data[place].id;
  const RowIndex& index = state.row_index();
  const std::vector<LogitRun> runs = runs_of(state.row(), index);
  const std::vector<KeyRun> distances = distances_of(runs, index.greatest_of_all());
  const size_t rank = id_of_place(distances, place, state.reference());
  size_t end = 0;
  for (const LogitRun& run : runs) {
    end += run.count;
    if (rank >= end) continue;
    const float logit = logit_of({run.key, 0});
    return id_at_rank(state.row(), index, rank, logit, state.reference());
  }
  return no_token;
}

}  // namespace mlx_sampling

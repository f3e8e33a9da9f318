#include "core/samplers/logit_bias.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace mlx_sampling {

LogitBias::LogitBias(std::vector<LogitBiasEntry> entries) : entries_(std::move(entries)) {
  for (const LogitBiasEntry& entry : entries_) {
    if (entry.bias < std::numeric_limits<float>::infinity()) continue;
    refuse("[logit_bias] Expected a finite bias or -inf, got ", entry.bias, " for token ", entry.id,
           ".");
  }
}

void LogitBias::apply(Candidates& candidates, RequestState&) const {
  auto& data = candidates.data;
  std::vector<LogitBiasEntry> moved;
  for (const LogitBiasEntry& entry : entries_) {
    if (entry.id < data.size() && data[entry.id].id == entry.id) {
      data[entry.id].logit += entry.bias;
    } else {
      moved.push_back(entry);
    }
  }
  if (moved.empty()) return;
  for (Candidate& candidate : data) {
    const auto entry = std::find_if(moved.begin(), moved.end(),
                                    [&](const LogitBiasEntry& e) { return e.id == candidate.id; });
    if (entry != moved.end()) candidate.logit += entry->bias;
  }
}

void LogitBias::apply_row(std::span<const float> row, Candidates& candidates,
                          RequestState& state) const {
  for (const LogitBiasEntry& entry : entries_) {
    if (entry.id < row.size()) continue;
    refuse("[logit_bias] Expected token ids in [0, ", row.size(), "), got ", entry.id, ".");
  }
  candidates.fill(row);
  apply(candidates, state);
}

}  // namespace mlx_sampling

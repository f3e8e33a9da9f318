#include "core/samplers/temperature.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/fast_paths.h"
#include "core/samplers/parameters.h"

namespace mlx_sampling {

void divide_logits(Candidates& candidates, float temperature) {
  auto& data = candidates.data;
  if (temperature <= 0) {
    size_t best = 0;
    for (size_t i = 1; i < data.size(); ++i) {
      const bool greater = data[i].logit > data[best].logit;
      data[greater ? best : i].logit = -std::numeric_limits<float>::infinity();
      if (greater) best = i;
    }
    return;
  }
  for (Candidate& candidate : data) candidate.logit /= temperature;
}

Temperature::Temperature(double temperature)
    : temperature_(finite_temperature("temperature", temperature)) {}

void Temperature::apply(Candidates& candidates, RequestState&) const {
  divide_logits(candidates, temperature_);
}

// In one pass, where no maximum has to be found.
void Temperature::apply_row(std::span<const float> row, Candidates& candidates,
                            RequestState& state) const {
  if (temperature_ <= 0 || !fast_paths()) {
    Stage::apply_row(row, candidates, state);
    return;
  }
  candidates.data.resize(row.size());
  candidates.selected = -1;
  candidates.sorted = false;
  std::array<float, 256> divided;
  for (size_t begin = 0; begin < row.size(); begin += divided.size()) {
    const size_t count = std::min(divided.size(), row.size() - begin);
    for (size_t i = 0; i < count; ++i) divided[i] = row[begin + i] / temperature_;
    for (size_t i = 0; i < count; ++i) {
      candidates.data[begin + i] = {static_cast<uint32_t>(begin + i), divided[i], 0.0f};
    }
  }
}

}  // namespace mlx_sampling

#include "core/samplers/temperature.h"

#include <limits>

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

}  // namespace mlx_sampling

#include "core/samplers/temperature.h"

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace mlx_sampling {
namespace {

float checked(double temperature) {
  std::ostringstream error;
  if (!(std::isfinite(temperature) && temperature >= 0)) {
    error << "[temperature] Expected a finite value >= 0, got " << temperature << ".";
    throw std::invalid_argument(error.str());
  }
  const bool too_great = temperature > std::numeric_limits<float>::max();
  const float value = too_great ? 0.0f : static_cast<float>(temperature);
  if (too_great || (value == 0 && temperature != 0)) {
    error << "[temperature] Expected 0 or a value in float32's range, got " << temperature << ".";
    throw std::invalid_argument(error.str());
  }
  return value;
}

}  // namespace

Temperature::Temperature(double temperature) : temperature_(checked(temperature)) {}

void Temperature::apply(Candidates& candidates, RequestState&) const {
  auto& data = candidates.data;
  if (temperature_ == 0) {
    size_t best = 0;
    for (size_t i = 1; i < data.size(); ++i) {
      const bool greater = data[i].logit > data[best].logit;
      data[greater ? best : i].logit = -std::numeric_limits<float>::infinity();
      if (greater) best = i;
    }
    return;
  }
  for (Candidate& candidate : data) candidate.logit /= temperature_;
}

}  // namespace mlx_sampling

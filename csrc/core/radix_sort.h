// Keys in rising order, without regard to which of several equal ones comes first.
#pragma once

#include <span>

#include "core/keyed.h"

namespace mlx_sampling {

// `scratch` is as large as `data`.
void sort_by_key(std::span<Keyed> data, std::span<Keyed> scratch);

}  // namespace mlx_sampling

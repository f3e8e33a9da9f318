// One switch for every short cut of the chain: each gives the same bits as the plain way, and tests
// run both.
#pragma once

namespace mlx_sampling {

// On, unless the environment has MLX_SAMPLING_PLAIN set when this is first asked.
bool fast_paths();

// For tests: applies to the whole process.
void set_fast_paths(bool on);

}  // namespace mlx_sampling

// One switch for every short cut of the chain and of grammars: each gives the same bits as the
// plain way, and tests run both.
#pragma once

#include <atomic>
#include <cstdlib>

namespace mlx_sampling {

inline std::atomic<bool>& fast_paths_flag() {
  static std::atomic<bool> on{std::getenv("MLX_SAMPLING_PLAIN") == nullptr};
  return on;
}

// On, unless the environment has MLX_SAMPLING_PLAIN set when this is first asked.
inline bool fast_paths() { return fast_paths_flag().load(std::memory_order_relaxed); }

// For tests: applies to the whole process.
inline void set_fast_paths(bool on) { fast_paths_flag().store(on, std::memory_order_relaxed); }

}  // namespace mlx_sampling

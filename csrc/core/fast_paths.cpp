#include "core/fast_paths.h"

#include <atomic>
#include <cstdlib>

namespace mlx_sampling {
namespace {

std::atomic<bool>& flag() {
  static std::atomic<bool> on{std::getenv("MLX_SAMPLING_PLAIN") == nullptr};
  return on;
}

}  // namespace

bool fast_paths() { return flag().load(std::memory_order_relaxed); }

void set_fast_paths(bool on) { flag().store(on, std::memory_order_relaxed); }

}  // namespace mlx_sampling

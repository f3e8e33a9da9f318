#include "core/in_use.h"

#include <string>

namespace mlx_sampling {

void InUse::refuse(const char* name) {
  throw ConcurrentUse("[" + std::string(name) +
                      "] Expected one thread at a time, but another one is using this " + name +
                      ": give each thread one of its own, or a copy.");
}

}  // namespace mlx_sampling

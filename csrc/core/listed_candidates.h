// Finds a few tokens among many candidates.
#pragma once

#include <cstddef>

#include "core/candidates.h"

namespace mlx_sampling {

// Calls `visit(candidate, value)` once for each candidate whose id is a key of `listed`, a map from
// ids. Candidates that stand at their id's place, as all do at the start of a chain, are found
// without a look at the others.
template <typename Map, typename Visit>
void for_each_listed(Candidates& candidates, const Map& listed, Visit&& visit) {
  auto& data = candidates.data;
  bool complete = true;
  for (const auto& [id, value] : listed) {
    if (id < data.size() && data[id].id == id) {
      visit(data[id], value);
    } else {
      complete = false;
    }
  }
  if (complete) return;
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i].id == i) continue;
    const auto found = listed.find(data[i].id);
    if (found != listed.end()) visit(data[i], found->second);
  }
}

}  // namespace mlx_sampling

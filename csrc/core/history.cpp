#include "core/history.h"

#include <algorithm>

namespace mlx_sampling {

std::span<const uint32_t> History::last(size_t count) const {
  return tokens().last(std::min(count, tokens_.size()));
}

const TokenCounts& History::counts(size_t window) {
  auto found = std::find_if(windows_.begin(), windows_.end(),
                            [&](const Window& w) { return w.width == window; });
  if (found == windows_.end()) found = windows_.insert(windows_.end(), Window{window, 0, {}});
  for (; found->seen < tokens_.size(); ++found->seen) {
    ++found->counts[tokens_[found->seen]];
    if (found->seen < window) continue;
    const auto left = found->counts.find(tokens_[found->seen - window]);
    if (--left->second == 0) found->counts.erase(left);
  }
  return found->counts;
}

void History::truncate(size_t count) {
  for (Window& window : windows_) {
    while (window.seen > count) {
      const size_t last = --window.seen;
      const auto gone = window.counts.find(tokens_[last]);
      if (--gone->second == 0) window.counts.erase(gone);
      if (last >= window.width) ++window.counts[tokens_[last - window.width]];
    }
  }
  tokens_.resize(count);
}

void History::clear() {
  tokens_.clear();
  windows_.clear();
}

}  // namespace mlx_sampling

// The tokens that a request has accepted, prompt included: what penalties and dry look back on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace mlx_sampling {

using TokenCounts = std::unordered_map<uint32_t, int32_t>;

class History {
 public:
  void accept(uint32_t token) { tokens_.push_back(token); }

  std::span<const uint32_t> tokens() const { return tokens_; }

  // The last `count` tokens, or all where there are fewer; the latest is the last.
  std::span<const uint32_t> last(size_t count) const;

  // How often each token stands among the last `window` ones; a token that does not is absent.
  // The work is one step per token accepted since the last call for that window.
  const TokenCounts& counts(size_t window);

  // Keeps the first `count` tokens; there are as many.
  void truncate(size_t count);

  void clear();

 private:
  struct Window {
    size_t width;
    size_t seen;  // tokens counted so far, those that have left the window included
    TokenCounts counts;
  };

  std::vector<uint32_t> tokens_;
  std::vector<Window> windows_;  // one per width in use
};

}  // namespace mlx_sampling

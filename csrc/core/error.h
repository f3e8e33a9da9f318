// How a bad value is refused.
#pragma once

#include <sstream>
#include <stdexcept>

namespace mlx_sampling {

// Throws `Error` with the parts written one after another: "[top_p] Expected ..., got ...". The
// text is made here, so that a call that refuses nothing pays for none.
template <typename Error = std::invalid_argument, typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error(text.str());
}

}  // namespace mlx_sampling

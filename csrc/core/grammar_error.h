// A grammar that cannot be read, and where.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace mlx_sampling {

class GrammarError : public std::invalid_argument {
 public:
  // Reads "3:14: message".
  GrammarError(uint32_t at_line, uint32_t at_column, const std::string& message)
      : std::invalid_argument(std::to_string(at_line) + ":" + std::to_string(at_column) + ": " +
                              message),
        line(at_line),
        column(at_column) {}

  // From 1; the column in code points.
  const uint32_t line;
  const uint32_t column;
};

}  // namespace mlx_sampling

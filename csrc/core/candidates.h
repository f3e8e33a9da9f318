// What the stages of a chain work on: the tokens still in the running.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mlx_sampling {

struct Candidate {
  uint32_t id;
  float logit;
  float p;  // 0 until a stage writes it
};

// Of a place among open candidates: whether others could as well stand there, all of one logit or
// not.
enum class Tie : uint8_t { none, equal, mixed };

struct Candidates {
  std::vector<Candidate> data;
  int64_t selected = -1;  // index into `data`; -1 = none
  bool sorted = false;    // data[0] is taken to be the greatest logit

  // Open candidates: which of several tied ones has which place is not settled, see chain.h.
  bool open = false;
  bool unsure = false;    // while open: the place of the pick may depend on it
  std::vector<Tie> ties;  // while open and not sorted, by place

  // All tokens of a row, in id order.
  void fill(std::span<const float> row) {
    data.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) data[i] = {static_cast<uint32_t>(i), row[i], 0.0f};
    selected = -1;
    sorted = false;
    open = false;
  }
};

}  // namespace mlx_sampling

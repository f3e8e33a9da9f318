// Walks one row in chunks of contiguous words, whatever the row's stride.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace mlx_sampling {

inline constexpr size_t chunk_width = 1024;

// A row of `width` words, `stride` words apart (0 and negative ones too).
template <typename Word>
struct RowView {
  const Word* data;
  int64_t stride;
  size_t width;

  Word operator[](size_t i) const { return data[static_cast<int64_t>(i) * stride]; }
};

// Asks for words [begin, begin + chunk_width) of a contiguous row. Streaming one row out of memory,
// the CPU's own prefetch stops at page ends: reading 8 KiB ahead took a scan of 808 KB from 22 to
// 16 us.
template <typename Word>
void prefetch_chunk(const RowView<Word>& row, size_t begin) {
  constexpr size_t line = 64 / sizeof(Word);
  const size_t end = std::min(begin + chunk_width, row.width);
  for (size_t i = begin; i < end; i += line) __builtin_prefetch(row.data + i);
}

// Calls `visit(words, begin, count)` for each chunk in order. Chunks of a row that is not
// contiguous are gathered into a small buffer: no copy of the row is made.
template <typename Word, typename Visit>
void for_each_chunk(const RowView<Word>& row, Visit&& visit) {
  std::array<Word, chunk_width> gathered;
  for (size_t begin = 0; begin < row.width; begin += chunk_width) {
    const size_t count = std::min(chunk_width, row.width - begin);
    if (row.stride == 1) {
      prefetch_chunk(row, begin + 8192 / sizeof(Word));
      visit(row.data + begin, begin, count);
      continue;
    }
    for (size_t i = 0; i < count; ++i) gathered[i] = row[begin + i];
    visit(gathered.data(), begin, count);
  }
}

}  // namespace mlx_sampling

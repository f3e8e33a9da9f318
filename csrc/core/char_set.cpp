#include "core/char_set.h"

#include <algorithm>

namespace mlx_sampling {
namespace {

void append_scalars(std::vector<CharRange>& set, CharRange range) {
  if (range.first < surrogates.first) {
    set.push_back({range.first, std::min(range.last, surrogates.first - 1)});
  }
  if (range.last > surrogates.last) {
    set.push_back({std::max(range.first, surrogates.last + 1), range.last});
  }
}

}  // namespace

std::vector<CharRange> char_set(std::vector<CharRange> ranges) {
  std::erase_if(ranges, [](const CharRange& range) { return range.first > range.last; });
  std::sort(ranges.begin(), ranges.end(),
            [](const CharRange& a, const CharRange& b) { return a.first < b.first; });
  std::vector<CharRange> set;
  for (size_t i = 0; i < ranges.size();) {
    CharRange merged = ranges[i];
    for (++i; i < ranges.size() && ranges[i].first <= merged.last + 1; ++i) {
      merged.last = std::max(merged.last, ranges[i].last);
    }
    append_scalars(set, merged);
  }
  return set;
}

std::vector<CharRange> complement(std::span<const CharRange> set) {
  std::vector<CharRange> others;
  uint32_t next = 0;
  for (const CharRange& range : set) {
    if (next < range.first) append_scalars(others, {next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= max_code_point) append_scalars(others, {next, max_code_point});
  return others;
}

}  // namespace mlx_sampling

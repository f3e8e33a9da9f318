// Between the core's containers and Python's, where nanobind's casters do not serve: columns of
// numbers as NumPy arrays, texts as bytes.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace mlx_sampling {

template <typename T>
using Column = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;

// A new array of `field(item)` of each item.
template <typename T, typename Range, typename Field>
Column<T> column(const Range& range, Field field) {
  auto values = std::make_unique<T[]>(range.size());
  std::transform(range.begin(), range.end(), values.get(), field);
  nanobind::capsule owner(values.get(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Column<T>(values.release(), {range.size()}, owner);
}

inline std::vector<std::string> strings(const std::vector<nanobind::bytes>& texts) {
  std::vector<std::string> result;
  result.reserve(texts.size());
  for (const nanobind::bytes& text : texts) result.emplace_back(text.c_str(), text.size());
  return result;
}

}  // namespace mlx_sampling

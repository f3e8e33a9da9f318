// The orders of libstdc++'s std::sort and std::partial_sort, for reference_order.h only: quicksort
// down to short ranges, heapsort where it degenerates, one insertion sort over everything at the
// end. Elements are trivially copyable; `less` is a strict partial order.
#pragma once

#include <bit>
#include <cstddef>
#include <utility>

#include "core/block_partition.h"
#include "core/keyed.h"

namespace mlx_sampling::libstdcxx {

constexpr ptrdiff_t short_range = 16;

// Puts `value` into the heap whose root at `root` is free: the hole sinks to a leaf, always towards
// the greater child, and the value climbs back from there.
template <typename T, typename Less>
void fill_root(T* heap, ptrdiff_t root, ptrdiff_t size, T value, const Less& less) {
  ptrdiff_t hole = root;
  for (ptrdiff_t right = 2 * hole + 2; right < size; right = 2 * hole + 2) {
    const ptrdiff_t child = right - (less(heap[right], heap[right - 1]) ? 1 : 0);
    heap[hole] = heap[child];
    hole = child;
  }
  if (2 * hole + 2 == size) {
    heap[hole] = heap[size - 1];
    hole = size - 1;
  }
  while (hole > root) {
    const ptrdiff_t parent = (hole - 1) / 2;
    if (!less(heap[parent], value)) break;
    heap[hole] = heap[parent];
    hole = parent;
  }
  heap[hole] = value;
}

template <typename T, typename Less>
void make_heap(T* heap, ptrdiff_t size, const Less& less) {
  for (ptrdiff_t root = size / 2 - 1; root >= 0; --root) {
    fill_root(heap, root, size, heap[root], less);
  }
}

template <typename T, typename Less>
void replace_root(T* heap, ptrdiff_t size, T value, const Less& less) {
  fill_root(heap, 0, size, value, less);
}

template <typename T, typename Less>
void sort_heap(T* heap, ptrdiff_t size, const Less& less) {
  for (ptrdiff_t end = size - 1; end > 0; --end) {
    const T value = heap[end];
    heap[end] = heap[0];
    fill_root(heap, 0, end, value, less);
  }
}

// With `middle` = 0 this still moves the first least element to the front, as the library does.
template <typename T, typename Less>
void partial_sort(T* data, ptrdiff_t middle, ptrdiff_t size, const Less& less) {
  make_heap(data, middle, less);
  for (ptrdiff_t i = middle; i < size; ++i) {
    if (!less(data[i], data[0])) continue;
    const T value = data[i];
    data[i] = data[0];
    replace_root(data, middle, value, less);
  }
  sort_heap(data, middle, less);
}

template <typename T, typename Less>
T* median(T* a, T* b, T* c, const Less& less) {
  if (less(*a, *b)) return less(*b, *c) ? b : less(*a, *c) ? c : a;
  return less(*a, *c) ? a : less(*b, *c) ? c : b;
}

// Splits the range around a median, which stays at `first`; returns where the right part begins.
// Neither scan needs a bound: the median's two rivals and then each swap stop them.
template <typename T, typename Less>
T* partition(T* first, T* last, const Less& less) {
  std::swap(*first, *median(first + 1, first + (last - first) / 2, last - 1, less));
  T* left = first + 1;
  T* right = last;
  const T pivot = *first;
  swap_blocks(
      left, right, [&](const T& value) { return !less(value, pivot); },
      [&](const T& value) { return !less(pivot, value); });
  while (true) {
    while (less(*left, *first)) ++left;
    do --right;
    while (less(*first, *right));
    if (left >= right) return left;
    std::swap(*left++, *right);
  }
}

// Ends each short range with `sort_short(first, size)`. Parts do not depend on each other (the
// library takes the right one first): what is left of `first` is done when `wanted(first)` is asked
// whether to go on.
template <typename T, typename Less, typename SortShort, typename Wanted>
void quicksort_roughly(T* first, T* last, int depth, const Less& less, const SortShort& short_sort,
                       const Wanted& wanted) {
  while (last - first > short_range) {
    if (depth-- == 0) {
      partial_sort(first, last - first, last - first, less);
      return;
    }
    T* right_part = partition(first, last, less);
    quicksort_roughly(first, right_part, depth, less, short_sort, wanted);
    first = right_part;
    if (!wanted(first)) return;
  }
  short_sort(first, last - first);
}

// NaNs show where the library treats the first short range differently: there an element less than
// the very first goes to the front past any NaN. Beyond it the library stops at nothing but an
// element that is not greater; it could leave the array where a heapsort met NaNs, and we stop.
template <typename T, typename Less>
void insertion_sort(T* data, ptrdiff_t size, const Less& less) {
  for (ptrdiff_t i = 1; i < size; ++i) {
    const T value = data[i];
    const bool to_front = i < short_range && less(value, data[0]);
    ptrdiff_t hole = i;
    for (; hole > 0 && (to_front || less(value, data[hole - 1])); --hole) {
      data[hole] = data[hole - 1];
    }
    data[hole] = value;
  }
}

inline int greatest_depth(ptrdiff_t size) {
  return 2 * (static_cast<int>(std::bit_width(static_cast<size_t>(size))) - 1);
}

template <typename T, typename Less>
void sort(T* data, ptrdiff_t size, const Less& less) {
  if (size < 2) return;
  quicksort_roughly(
      data, data + size, greatest_depth(size), less, [](T*, ptrdiff_t) {},
      [](const T*) { return true; });
  insertion_sort(data, size, less);
}

// `sort` by keys, as far as wanted. The one insertion sort at the end does what one for each short
// range does: no element is less than one of a range before it.
template <typename T, typename Wanted>
void sort_keyed(T* data, ptrdiff_t size, const Wanted& wanted) {
  const auto less = [](const T& a, const T& b) { return a.key < b.key; };
  quicksort_roughly(
      data, data + size, greatest_depth(size), less,
      [](T* first, ptrdiff_t count) { sort_short(first, count); }, wanted);
}

// The element that `sort` by keys has at a rank: of each split only the part with the rank is split
// on, `depth` times at most, and of a heap no more is sorted than follows the rank.
template <typename T>
T at_rank(T* data, ptrdiff_t size, ptrdiff_t rank, int depth) {
  const auto less = [](const T& a, const T& b) { return a.key < b.key; };
  T* first = data;
  T* last = data + size;
  for (; last - first > short_range; --depth) {
    if (depth == 0) {
      make_heap(first, last - first, less);
      for (ptrdiff_t end = last - first - 1; end > 0 && first + end >= data + rank; --end) {
        const T value = first[end];
        first[end] = first[0];
        fill_root(first, 0, end, value, less);
      }
      return data[rank];
    }
    T* right_part = partition(first, last, less);
    (data + rank < right_part ? last : first) = right_part;
  }
  sort_short(first, last - first);
  return data[rank];
}

template <typename T>
T at_rank(T* data, ptrdiff_t size, ptrdiff_t rank) {
  return at_rank(data, size, rank, greatest_depth(size));
}

}  // namespace mlx_sampling::libstdcxx

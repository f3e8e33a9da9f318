// The orders of libc++'s std::sort (rewritten in LLVM 17) and std::partial_sort, for
// reference_order.h only: quicksort that notices sorted and equal runs, insertion sort for short
// ranges, heapsort where it degenerates. Elements are trivially copyable; `less` is a strict
// partial order, so the library's sorting networks and its unguarded insertion sort order elements
// as the one insertion sort here does.
#pragma once

#include <bit>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "core/block_partition.h"
#include "core/keyed.h"

namespace mlx_sampling::libcxx {

constexpr ptrdiff_t short_range = 24;         // below it: insertion sort
constexpr ptrdiff_t median_of_3_up_to = 128;  // above it: a median of three medians
constexpr int patience = 8;                   // moves after which a range is not nearly sorted

template <typename T, typename Less>
ptrdiff_t greater_child(const T* heap, ptrdiff_t left, ptrdiff_t size, const Less& less) {
  return left + 1 < size && less(heap[left], heap[left + 1]) ? left + 1 : left;
}

// Sinks past equal children too.
template <typename T, typename Less>
void sift_down(T* heap, ptrdiff_t at, ptrdiff_t size, const Less& less) {
  const T value = heap[at];
  while (2 * at + 1 < size) {
    const ptrdiff_t child = greater_child(heap, 2 * at + 1, size, less);
    if (less(heap[child], value)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = value;
}

template <typename T, typename Less>
void sift_up(T* heap, ptrdiff_t at, const Less& less) {
  const T value = heap[at];
  while (at > 0) {
    const ptrdiff_t parent = (at - 1) / 2;
    if (!less(heap[parent], value)) break;
    heap[at] = heap[parent];
    at = parent;
  }
  heap[at] = value;
}

// A KeyedInteger stands for the index that the library would sort.
template <typename T>
inline constexpr bool heaps_as_arithmetic =
    std::is_arithmetic_v<T> || std::is_same_v<T, KeyedInteger>;

// LLVM 22 heaps an odd number of arithmetic elements first and then lets the last one climb, which
// is another order than sinking alone gives where elements are equal.
template <typename T, typename Less>
void make_heap(T* heap, ptrdiff_t size, const Less& less) {
  if (size < 2) return;
  const bool last_climbs = heaps_as_arithmetic<T>;
  const ptrdiff_t sunk = last_climbs && size % 2 == 0 ? size - 1 : size;
  for (ptrdiff_t at = sunk / 2 - 1; at >= 0; --at) sift_down(heap, at, sunk, less);
  if (last_climbs) sift_up(heap, size - 1, less);
}

// Moves the greatest element to the end. The hole it leaves sinks to a leaf; the last element fills
// that and climbs.
template <typename T, typename Less>
void pop_heap(T* heap, ptrdiff_t size, const Less& less) {
  const T greatest = heap[0];
  ptrdiff_t hole = 0;
  while (2 * hole + 1 < size) {
    const ptrdiff_t child = greater_child(heap, 2 * hole + 1, size, less);
    heap[hole] = heap[child];
    hole = child;
  }
  heap[hole] = heap[size - 1];
  heap[size - 1] = greatest;
  if (hole != size - 1) sift_up(heap, hole, less);
}

template <typename T, typename Less>
void replace_root(T* heap, ptrdiff_t size, T value, const Less& less) {
  heap[0] = value;
  sift_down(heap, 0, size, less);
}

template <typename T, typename Less>
void sort_heap(T* heap, ptrdiff_t size, const Less& less) {
  for (ptrdiff_t end = size; end > 1; --end) pop_heap(heap, end, less);
}

template <typename T, typename Less>
void partial_sort(T* data, ptrdiff_t middle, ptrdiff_t size, const Less& less) {
  if (middle == 0) return;
  make_heap(data, middle, less);
  for (ptrdiff_t i = middle; i < size; ++i) {
    if (!less(data[i], data[0])) continue;
    const T value = data[i];
    data[i] = data[0];
    replace_root(data, middle, value, less);
  }
  sort_heap(data, middle, less);
}

// Moves first[at] left to its place in the sorted elements before it; says whether it moved.
template <typename T, typename Less>
bool insert(T* first, ptrdiff_t at, const Less& less) {
  const T value = first[at];
  ptrdiff_t hole = at;
  for (; hole > 0 && less(value, first[hole - 1]); --hole) first[hole] = first[hole - 1];
  first[hole] = value;
  return hole != at;
}

template <typename T, typename Less>
void insertion_sort(T* first, ptrdiff_t size, const Less& less) {
  for (ptrdiff_t at = 1; at < size; ++at) insert(first, at, less);
}

// Gives up, and says so, when elements are left after `patience` moves past the third element.
template <typename T, typename Less>
bool sort_if_nearly_sorted(T* first, ptrdiff_t size, const Less& less) {
  int moves = 0;
  for (ptrdiff_t at = 1; at < size; ++at) {
    if (insert(first, at, less) && at >= 3 && ++moves == patience) return at + 1 == size;
  }
  return true;
}

template <typename T, typename Less>
void sort_3(T& a, T& b, T& c, const Less& less) {
  if (!less(b, a)) {
    if (!less(c, b)) return;
    std::swap(b, c);
    if (less(b, a)) std::swap(a, b);
  } else if (less(c, b)) {
    std::swap(a, c);
  } else {
    std::swap(a, b);
    if (less(c, b)) std::swap(b, c);
  }
}

// Leaves the pivot at `first` and an element that is not less at or right of the middle.
template <typename T, typename Less>
void choose_pivot(T* first, T* last, const Less& less) {
  T* half = first + (last - first) / 2;
  if (last - first <= median_of_3_up_to) {
    sort_3(*half, *first, last[-1], less);
    return;
  }
  sort_3(first[0], half[0], last[-1], less);
  sort_3(first[1], half[-1], last[-2], less);
  sort_3(first[2], half[1], last[-3], less);
  sort_3(half[-1], half[0], half[1], less);
  std::swap(*first, *half);
}

template <typename T>
struct Split {
  T* pivot;
  bool nothing_moved;
};

// Moves the elements less than the pivot at `first` before it. The scans that have no bound are
// stopped by what choose_pivot left, and then by each swap.
template <typename T, typename Less>
Split<T> partition(T* first, T* last, const Less& less) {
  const T pivot = *first;
  T* left = first;
  T* right = last;
  do ++left;
  while (less(*left, pivot));
  do --right;
  while (left < right && !less(*right, pivot));
  const bool nothing_moved = left >= right;
  if (!nothing_moved) {
    std::swap(*left++, *right);
    swap_blocks(
        left, right, [&](const T& value) { return !less(value, pivot); },
        [&](const T& value) { return less(value, pivot); });
    while (less(*left, pivot)) ++left;
    do --right;
    while (!less(*right, pivot));
  }
  while (left < right) {
    std::swap(*left, *right);
    do ++left;
    while (less(*left, pivot));
    do --right;
    while (!less(*right, pivot));
  }
  *first = left[-1];
  left[-1] = pivot;
  return {left - 1, nothing_moved};
}

// The same where the pivot is the least of the range: moves its equals before it, and returns where
// the greater ones begin.
template <typename T, typename Less>
T* skip_equal(T* first, T* last, const Less& less) {
  const T pivot = *first;
  T* left = first;
  T* right = last;
  do ++left;
  while (left < last && !less(pivot, *left));
  do --right;
  while (less(pivot, *right));
  while (left < right) {
    std::swap(*left, *right);
    do ++left;
    while (!less(pivot, *left));
    do --right;
    while (less(pivot, *right));
  }
  *first = left[-1];
  left[-1] = pivot;
  return left;
}

// Ends each short range with `sort_short(first, size)`. All before `first` is done when
// `wanted(first)` is asked whether to go on. `leftmost`: no earlier pivot is known to stand right
// before `first`.
template <typename T, typename Less, typename SortShort, typename Wanted>
void quicksort(T* first, T* last, int depth, bool leftmost, const Less& less,
               const SortShort& short_sort, const Wanted& wanted) {
  while (last - first >= short_range) {
    if (depth-- == 0) {
      partial_sort(first, last - first, last - first, less);
      return;
    }
    choose_pivot(first, last, less);
    if (!leftmost && !less(first[-1], *first)) {
      first = skip_equal(first, last, less);
      if (!wanted(first)) return;
      continue;
    }
    const auto [pivot, nothing_moved] = partition(first, last, less);
    if (nothing_moved) {
      const bool left_sorted = sort_if_nearly_sorted(first, pivot - first, less);
      const bool right_sorted = sort_if_nearly_sorted(pivot + 1, last - pivot - 1, less);
      if (left_sorted && right_sorted) return;
      if (right_sorted) {
        last = pivot;
        continue;
      }
      if (left_sorted) {
        first = pivot + 1;
        continue;
      }
    }
    quicksort(first, pivot, depth, leftmost, less, short_sort, wanted);
    leftmost = false;
    first = pivot + 1;
    if (!wanted(first)) return;
  }
  short_sort(first, last - first);
}

inline int greatest_depth(ptrdiff_t size) {
  return 2 * (static_cast<int>(std::bit_width(static_cast<size_t>(size))) - 1);
}

template <typename T, typename Less>
void sort(T* data, ptrdiff_t size, const Less& less) {
  if (size < 2) return;
  quicksort(
      data, data + size, greatest_depth(size), true, less,
      [&](T* first, ptrdiff_t count) { insertion_sort(first, count, less); },
      [](const T*) { return true; });
}

// `sort` by keys, as far as wanted.
template <typename T, typename Wanted>
void sort_keyed(T* data, ptrdiff_t size, const Wanted& wanted) {
  if (size < 2) return;
  const auto less = [](const T& a, const T& b) { return a.key < b.key; };
  quicksort(
      data, data + size, greatest_depth(size), true, less,
      [](T* first, ptrdiff_t count) { sort_short(first, count); }, wanted);
}

// The element that `sort` by keys has at a rank: see quicksort.
template <typename T>
T at_rank(T* data, ptrdiff_t size, ptrdiff_t rank) {
  const auto less = [](const T& a, const T& b) { return a.key < b.key; };
  T* first = data;
  T* last = data + size;
  T* const place = data + rank;
  bool leftmost = true;
  for (int depth = greatest_depth(size); last - first >= short_range; --depth) {
    if (depth == 0) {
      partial_sort(first, last - first, last - first, less);
      return *place;
    }
    choose_pivot(first, last, less);
    if (!leftmost && !less(first[-1], *first)) {
      first = skip_equal(first, last, less);
      if (place < first) return *place;
      continue;
    }
    const auto [pivot, nothing_moved] = partition(first, last, less);
    if (place == pivot) return *place;
    bool left_sorted = false;
    if (nothing_moved) {
      left_sorted = sort_if_nearly_sorted(first, pivot - first, less);
      const bool right_sorted = sort_if_nearly_sorted(pivot + 1, last - pivot - 1, less);
      if (place < pivot ? left_sorted : right_sorted) return *place;
    }
    if (place < pivot) {
      last = pivot;
    } else {
      first = pivot + 1;
      leftmost &= left_sorted;
    }
  }
  sort_short(first, last - first);
  return *place;
}

}  // namespace mlx_sampling::libcxx

// std::sort and std::partial_sort as a named standard library does them: equal elements come out
// in that library's order, whatever library this is compiled with. libstdc++ is versions 11 to 15.
// libc++ is LLVM 22; LLVM 17 to 21 (macOS up to 26.4) differ from it in one place, the heap built
// over integers, which only `typical` could notice: see make_heap in reference_order_libcxx.h.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>

#include "core/reference.h"
#include "core/reference_order_libcxx.h"
#include "core/reference_order_libstdcxx.h"

namespace mlx_sampling {

// Sorts `data`. `less` must be irreflexive, asymmetric and transitive, as `<` and `>` are on floats
// even where there are NaNs; being unordered need not be transitive. Never reads outside `data`.
// Pass a lambda: libc++ has other code for arithmetic elements under std::less or std::greater.
template <typename T, typename Less>
void reference_sort(Reference reference, std::span<T> data, Less less) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (reference == Reference::libcxx) {
    libcxx::sort(data.data(), std::ssize(data), less);
  } else {
    libstdcxx::sort(data.data(), std::ssize(data), less);
  }
}

// Sorts as reference_sort does by `a.key < b.key`, from the front and as far as wanted: when
// `wanted(first)` is asked whether to go on, all before `first` is in place. T is Keyed or
// KeyedInteger.
template <typename T, typename Wanted>
void reference_sort_keyed(Reference reference, std::span<T> data, const Wanted& wanted) {
  if (reference == Reference::libcxx) {
    libcxx::sort_keyed(data.data(), std::ssize(data), wanted);
  } else {
    libstdcxx::sort_keyed(data.data(), std::ssize(data), wanted);
  }
}

// The element that reference_sort by `a.key < b.key` has at a rank below the size; leaves `data` in
// some order. T as for reference_sort_keyed.
template <typename T>
T reference_at_rank(Reference reference, std::span<T> data, size_t rank) {
  const auto place = static_cast<ptrdiff_t>(rank);
  return reference == Reference::libcxx ? libcxx::at_rank(data.data(), std::ssize(data), place)
                                        : libstdcxx::at_rank(data.data(), std::ssize(data), place);
}

// Puts the `middle` least elements of `data` first, in order; `middle` is at most the size. The
// rest is left in the library's order too. `less` as for reference_sort.
template <typename T, typename Less>
void reference_partial_sort(Reference reference, std::span<T> data, size_t middle, Less less) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto heap_size = static_cast<ptrdiff_t>(middle);
  if (reference == Reference::libcxx) {
    libcxx::partial_sort(data.data(), heap_size, std::ssize(data), less);
  } else {
    libstdcxx::partial_sort(data.data(), heap_size, std::ssize(data), less);
  }
}

// The least elements seen, as reference_partial_sort keeps them: it makes a heap of the first ones
// and then looks at each other element once.
template <typename T, typename Less>
class ReferenceHeap {
 public:
  // At least one element.
  ReferenceHeap(Reference reference, std::span<T> heap, Less less)
      : reference_(reference), heap_(heap), less_(less) {
    on([&](auto library) { library.make(heap_.data(), std::ssize(heap_), less_); });
  }

  const T& greatest() const { return heap_[0]; }

  // For a value less than the greatest; for any other, the library does nothing.
  void take(T value) {
    on([&](auto library) { library.replace(heap_.data(), std::ssize(heap_), value, less_); });
  }

  void sort() {
    on([&](auto library) { library.sort(heap_.data(), std::ssize(heap_), less_); });
  }

 private:
  struct Libcxx {
    static void make(T* heap, ptrdiff_t size, const Less& less) {
      libcxx::make_heap(heap, size, less);
    }
    static void replace(T* heap, ptrdiff_t size, T value, const Less& less) {
      libcxx::replace_root(heap, size, value, less);
    }
    static void sort(T* heap, ptrdiff_t size, const Less& less) {
      libcxx::sort_heap(heap, size, less);
    }
  };
  struct Libstdcxx {
    static void make(T* heap, ptrdiff_t size, const Less& less) {
      libstdcxx::make_heap(heap, size, less);
    }
    static void replace(T* heap, ptrdiff_t size, T value, const Less& less) {
      libstdcxx::replace_root(heap, size, value, less);
    }
    static void sort(T* heap, ptrdiff_t size, const Less& less) {
      libstdcxx::sort_heap(heap, size, less);
    }
  };

  template <typename Work>
  void on(Work&& work) {
    if (reference_ == Reference::libcxx) {
      work(Libcxx{});
    } else {
      work(Libstdcxx{});
    }
  }

  Reference reference_;
  std::span<T> heap_;
  Less less_;
};

}  // namespace mlx_sampling

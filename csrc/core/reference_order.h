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

}  // namespace mlx_sampling

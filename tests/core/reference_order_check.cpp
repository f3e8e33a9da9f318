// Compares reference_order.h with std::sort and std::partial_sort of the library this is compiled
// with, element by element, over arrays of every shape that logits take and some they do not.
// Prints counts, the mismatches, and a digest of each flavour's orders, which is the same whatever
// this is compiled with. test_reference_order.py builds and runs it.
#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "core/candidates.h"
#include "core/reference_order.h"

namespace {

using mlx_sampling::Candidate;
using mlx_sampling::Reference;

#ifdef _LIBCPP_VERSION
constexpr const char* library = "libc++";
constexpr int library_version = _LIBCPP_VERSION;
constexpr Reference host = Reference::libcxx;
constexpr bool heaps_integers_our_way = _LIBCPP_VERSION >= 220000;
#else
constexpr const char* library = "libstdc++";
constexpr int library_version = _GLIBCXX_RELEASE;
constexpr Reference host = Reference::libstdcxx;
constexpr bool heaps_integers_our_way = true;
#endif

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// An index that the library does not take for a number.
struct Boxed {
  uint32_t index;
};

// The order of an array, as ids.
using Ids = std::vector<uint64_t>;

struct Tally {
  int arrays = 0, sorts = 0, partial_sorts = 0, uncompared = 0, mismatches = 0;
  int candidates = 0, sizes = 0, ints = 0, boxed = 0, with_nan = 0;
  uint64_t digest[2] = {14695981039346656037u, 14695981039346656037u};
};

Tally tally;
std::mt19937 words(20240607);

// std:: distributions differ between libraries; this does not.
size_t below(size_t bound) { return words() % bound; }

void add_to_digest(Reference reference, const Ids& ids) {
  uint64_t& digest = tally.digest[static_cast<int>(reference)];
  for (uint64_t id : ids) digest = (digest ^ id) * 1099511628211u;
}

// Sorts elements 0 to size - 1 in three ways. `make(i)` is element i, `id` its inverse. `whole`:
// std::sort, else std::partial_sort up to `middle`. Element `size` equals all others: before the
// array it stops libstdc++, which can leave an array with NaNs.
template <typename Make, typename Id, typename Less>
void compare(const char* shape, size_t size, bool whole, size_t middle, bool comparable, Make make,
             Id id, Less less) {
  using T = decltype(make(0));
  std::vector<T> input(size);
  for (size_t i = 0; i < size; ++i) input[i] = make(i);
  const auto ids_of = [&](const std::vector<T>& data, size_t from) {
    Ids ids;
    for (size_t i = from; i < data.size(); ++i) ids.push_back(id(data[i]));
    return ids;
  };

  Ids ours[2];
  for (Reference reference : {Reference::libcxx, Reference::libstdcxx}) {
    std::vector<T> data = input;
    if (whole) {
      mlx_sampling::reference_sort(reference, std::span(data), less);
    } else {
      mlx_sampling::reference_partial_sort(reference, std::span(data), middle, less);
    }
    Ids ids = ids_of(data, 0);
    add_to_digest(reference, ids);
    ours[static_cast<int>(reference)] = std::move(ids);
  }

  ++tally.arrays;
  ++(whole ? tally.sorts : tally.partial_sorts);
  if (!comparable) {
    ++tally.uncompared;
    return;
  }
  std::vector<T> data = {make(size)};
  data.insert(data.end(), input.begin(), input.end());
  T* first = data.data() + 1;
  if (whole) {
    std::sort(first, first + size, less);
  } else {
    std::partial_sort(first, first + middle, first + size, less);
  }
  if (id(data[0]) != size || ids_of(data, 1) != ours[static_cast<int>(host)]) {
    if (++tally.mismatches <= 10) {
      std::fprintf(stderr, "mismatch: %s, %zu elements of %zu bytes, %s %zu\n", shape, size,
                   sizeof(T), whole ? "sort" : "partial_sort", middle);
    }
  }
}

enum class Element { candidate, size, integer, boxed };

void compare(const char* shape, std::vector<float> scores, Element element, bool whole,
             size_t middle) {
  const size_t size = scores.size();
  scores.push_back(nan);
  const auto by_score = [&](auto a, auto b) {
    return scores[static_cast<size_t>(a)] < scores[static_cast<size_t>(b)];
  };
  if (element == Element::candidate) {
    ++tally.candidates;
    compare(
        shape, size, whole, middle, true,
        [&](size_t i) { return Candidate{static_cast<uint32_t>(i), -scores[i], 0.0f}; },
        [](const Candidate& c) { return c.id; },
        [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  } else if (element == Element::size) {
    ++tally.sizes;
    compare(
        shape, size, whole, middle, heaps_integers_our_way, [](size_t i) { return i; },
        [](size_t i) { return i; }, by_score);
  } else if (element == Element::integer) {
    ++tally.ints;
    compare(
        shape, size, whole, middle, heaps_integers_our_way,
        [](size_t i) { return static_cast<int>(i); },
        [](int i) { return static_cast<uint64_t>(i); }, by_score);
  } else {
    ++tally.boxed;
    compare(
        shape, size, whole, middle, true, [](size_t i) { return Boxed{static_cast<uint32_t>(i)}; },
        [](Boxed b) { return b.index; },
        [&](Boxed a, Boxed b) { return scores[a.index] < scores[b.index]; });
  }
}

// All arrays of up to `longest` elements over {0, 1, NaN}.
void compare_all_short(size_t longest) {
  size_t count = 1;
  for (size_t size = 0; size <= longest; ++size, count *= 3) {
    for (size_t code = 0; code < count; ++code) {
      std::vector<float> scores(size);
      size_t rest = code;
      for (float& score : scores) {
        score = rest % 3 == 2 ? nan : static_cast<float>(rest % 3);
        rest /= 3;
      }
      compare("short", scores, Element::size, true, 0);
      compare("short", scores, Element::candidate, false, code % (size + 1));
    }
  }
}

float normal() {
  int32_t sum = 0;
  for (int i = 0; i < 8; ++i) sum += static_cast<int32_t>(words() >> 10);
  return static_cast<float>(sum - (1 << 24)) * 0x1p-21f;
}

float to_bf16(float value) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x8000u) & 0xFFFF0000u);
}

// M. D. McIlroy, "A killer adversary for quicksort": an element gets its value only when it must,
// so that pivots turn out to be the least elements left. The values from `ties` on are folded into
// few, so that the heapsort which ends this meets equal elements.
std::vector<float> killer(Reference reference, size_t size) {
  std::vector<size_t> value(size, size);
  std::vector<Boxed> data(size);
  for (size_t i = 0; i < size; ++i) data[i].index = static_cast<uint32_t>(i);
  size_t assigned = 0;
  uint32_t candidate = 0;
  mlx_sampling::reference_sort(reference, std::span(data), [&](Boxed a, Boxed b) {
    if (value[a.index] == size && value[b.index] == size) {
      value[a.index == candidate ? a.index : b.index] = assigned++;
    }
    if (value[a.index] == size) candidate = a.index;
    if (value[b.index] == size) candidate = b.index;
    return value[a.index] < value[b.index];
  });
  const size_t ties = 4 * static_cast<size_t>(std::bit_width(size)) + below(20);
  const size_t distinct = below(3) == 0 ? size : 1 + below(20);
  std::vector<float> scores;
  for (size_t v : value) {
    scores.push_back(static_cast<float>(v < ties ? v : ties + (v - ties) * 7 % distinct));
  }
  return scores;
}

constexpr const char* shapes[] = {"distinct", "bf16",          "normal",          "equal",
                                  "sorted",   "reversed",      "organ pipe",      "sawtooth",
                                  "nearly",   "killer libc++", "killer libstdc++"};

std::vector<float> make_scores(size_t shape, size_t size) {
  if (shape >= 9) return killer(shape == 9 ? Reference::libcxx : Reference::libstdcxx, size);
  const size_t distinct = 2 + below(19);
  const size_t period = 1 + below(size + 1);
  const size_t run = 1 + below(4);
  std::vector<float> scores(size);
  for (size_t i = 0; i < size; ++i) {
    const size_t to_end = std::min(i, size - 1 - i);
    scores[i] = shape == 0   ? static_cast<float>(below(distinct))
                : shape == 1 ? to_bf16(normal())
                : shape == 2 ? normal()
                : shape == 3 ? 1.0f
                : shape == 5 ? static_cast<float>((size - i) / run)
                : shape == 6 ? static_cast<float>(to_end / run)
                : shape == 7 ? static_cast<float>(i % period)
                             : static_cast<float>(i / run);
  }
  for (size_t swaps = shape == 8 ? below(12) : 0; swaps > 0 && size > 0; --swaps) {
    std::swap(scores[below(size)], scores[below(size)]);
  }
  return scores;
}

void compare_random(size_t shape, size_t size) {
  std::vector<float> scores = make_scores(shape, size);
  if (size > 0 && below(4) == 0) {
    ++tally.with_nan;
    const size_t one_in = size_t{1} << below(10);
    scores[below(size)] = nan;
    for (float& score : scores) {
      if (below(one_in) == 0) score = nan;
    }
  }
  if (below(2) == 0) {
    for (float& score : scores) score = -score;
  }
  const bool whole = below(2) == 0;
  const size_t most = below(8) == 0 ? size : std::min<size_t>(size, 128);
  const size_t middle = below(most + 1);
  compare(shapes[shape], scores, static_cast<Element>(below(4)), whole, middle);
}

}  // namespace

int main() {
  compare_all_short(7);
  for (size_t i = 0; i < 300000; ++i) {
    const size_t longest = i % 200 == 0 ? 5000 : i % 20 == 0 ? 1000 : i % 2 == 0 ? 200 : 40;
    compare_random(i % std::size(shapes), below(longest + 1));
  }
  for (size_t i = 0; i < 2 * std::size(shapes); ++i) {
    compare_random(i % std::size(shapes), 20000 + below(30001));
  }

  std::printf("{\"library\": \"%s\", \"version\": %d, \"arrays\": %d, \"sorts\": %d, ", library,
              library_version, tally.arrays, tally.sorts);
  std::printf("\"partial_sorts\": %d, \"candidates\": %d, \"size_ts\": %d, \"ints\": %d, ",
              tally.partial_sorts, tally.candidates, tally.sizes, tally.ints);
  std::printf("\"boxed\": %d, \"with_nan\": %d, \"uncompared\": %d, \"mismatches\": %d, ",
              tally.boxed, tally.with_nan, tally.uncompared, tally.mismatches);
  std::printf("\"digests\": {\"libc++\": \"%016" PRIx64 "\", \"libstdc++\": \"%016" PRIx64 "\"}}\n",
              tally.digest[0], tally.digest[1]);
  return 0;
}

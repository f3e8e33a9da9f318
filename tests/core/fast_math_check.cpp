// exp_floats, the ordered sums and the keyed sorts beside their plain ways, bit for bit. Prints how
// much was compared, and how much differed. With an argument, every exponential from -110 to 0 is
// compared instead of some.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "core/exp_floats.h"
#include "core/fast_paths.h"
#include "core/ordered_sum.h"
#include "core/reference_order.h"
#include "core/run_order.h"

using namespace mlx_sampling;

namespace {

std::mt19937_64 words(1);
size_t below(size_t bound) { return words() % bound; }
uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

struct Counts {
  size_t compared = 0;
  size_t differing = 0;
  void add(bool same) {
    ++compared;
    differing += same ? 0 : 1;
  }
};

void compare_exps(Counts& counts, const std::vector<float>& x) {
  std::vector<float> out(x.size());
  exp_floats(x.data(), x.size(), out.data());
  for (size_t i = 0; i < x.size(); ++i) counts.add(bits(out[i]) == bits(std::exp(x[i])));
}

Counts exps(uint32_t step) {
  Counts counts;
  std::vector<float> x;
  for (uint64_t word = 0x80000000u; word <= bits(-110.0f); word += step) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(word)));
    if (x.size() < 1000) continue;
    compare_exps(counts, x);
    x.clear();
  }
  for (uint64_t word = 0; word < 0x80000000u; word += 100003) {  // greater than 0, NaN
    const float value = std::bit_cast<float>(static_cast<uint32_t>(word));
    if (!std::isnan(value)) x.push_back(value);
  }
  x.push_back(-INFINITY);
  compare_exps(counts, x);
  return counts;
}

std::vector<float> addends(size_t count) {
  const float scale = std::ldexp(1.0f, static_cast<int>(below(60)) - 30);
  const size_t kind = below(5);
  std::vector<float> x;
  for (size_t i = 0; i < count; ++i) {
    const float u = static_cast<float>(below(1 << 24)) / (1 << 24);
    switch (kind) {
      case 0:
        x.push_back(scale * u);
        break;
      case 1:
        x.push_back(scale * std::exp(-30 * u));
        break;
      case 2:
        x.push_back(std::ldexp(1.0f, -static_cast<int>(below(40))));
        break;  // halfway
      case 3:
        x.push_back(below(9) == 0 ? scale : 0.0f);
        break;
      default:
        x.push_back(scale * static_cast<float>(below(4)));
        break;
    }
  }
  if (below(50) == 0 && count > 0) x[below(count)] = below(2) == 0 ? NAN : INFINITY;
  return x;
}

bool same(float a, float b) { return bits(a) == bits(b) || (std::isnan(a) && std::isnan(b)); }

Counts sums() {
  Counts counts;
  for (int round = 0; round < 30000; ++round) {
    const auto x = addends(below(3000));
    const float start = below(3) == 0 ? 0.0f : std::ldexp(1.0f, static_cast<int>(below(40)) - 20);
    const float mean = below(2) == 0 ? 0.0f : x.empty() ? 1.0f : x[0];
    float plain = start;
    float squares = start;
    for (const float value : x) {
      plain += value;
      const double distance = value - mean;
      squares = static_cast<float>(squares + distance * distance);
    }
    counts.add(same(add_in_order(start, x.data(), x.size()), plain));
    counts.add(same(add_squares_in_order(start, x.data(), x.size(), mean), squares));
    float any = start;
    if (add_in_any_order(any, x.data(), x.size())) {
      counts.add(same(any, plain));
      float reversed = start;
      for (size_t i = x.size(); i-- > 0;) reversed += x[i];
      counts.add(same(any, reversed));
    }
  }
  return counts;
}

Counts bounded_sums() {
  Counts counts;
  for (int round = 0; round < 30000; ++round) {
    auto x = addends(below(3000));
    const float start = std::ldexp(1.0f, static_cast<int>(below(40)) - 20);
    const float width = std::ldexp(1.0f, -static_cast<int>(below(24)));
    std::vector<float> low;
    std::vector<float> high;
    for (float& value : x) {
      if (!(value < INFINITY)) value = 1;
      low.push_back(below(9) == 0 ? value : value * (1 - width));
      high.push_back(below(9) == 0 ? value : value * (1 + width));
    }
    float sum = start;
    std::vector<uint32_t> open;
    if (!add_between(sum, low.data(), high.data(), x.size(), 7, open)) {
      counts.add(sum == start);
      continue;
    }
    std::vector<float> others;
    for (const uint32_t position : open) others.push_back(x[position - 7]);
    if (!add_in_any_order(sum, others.data(), others.size())) continue;
    float plain = start;
    for (const float value : x) plain += value;
    counts.add(same(sum, plain));
  }
  return counts;
}

Counts run_orders() {
  Counts counts;
  for (int round = 0; round < 6000; ++round) {
    const size_t size = 1 + below(round % 20 == 0 ? 20000 : 600);
    const size_t kind = below(4);
    const size_t longest = 1 + below(kind == 0 ? 30 : 200);
    std::vector<KeyRun> runs;
    std::vector<KeyedInteger> data;
    while (data.size() < size) {
      const auto first = static_cast<uint32_t>(data.size());
      const size_t count = std::min(1 + below(longest), size - data.size());
      const size_t key = kind == 1   ? below(40)
                         : kind == 2 ? (first < size / 3 ? size / 3 - first : first - size / 3)
                         : kind == 3 ? runs.size() % 5
                                     : below(1 << 20);
      runs.push_back({static_cast<int32_t>(key), first, 1, static_cast<uint32_t>(count)});
      for (uint32_t i = 0; i < count; ++i) data.push_back({{runs.back().key, first + i}});
    }
    reference_sort(Reference::libstdcxx, std::span(data),
                   [](const KeyedInteger& a, const KeyedInteger& b) { return a.key < b.key; });
    for (int i = 0; i < 4; ++i) {
      const size_t rank = below(size);
      counts.add(element_of_runs_at_rank(runs, rank).id == data[rank].id);
    }
  }
  return counts;
}

template <typename T>
std::vector<T> elements(size_t size, size_t kind) {
  std::vector<T> data(size);
  for (size_t i = 0; i < size; ++i) {
    const size_t key = kind == 0   ? below(1 << 30)
                       : kind == 1 ? below(size / 8 + 1)
                       : kind == 2 ? i / 3
                       : kind == 3 ? (size - i) / 5
                       : kind == 4 ? (i % 2 == 0 ? i : size - i)
                                   : below(3);
    data[i].key = static_cast<int32_t>(key) - 100;
    data[i].id = static_cast<uint32_t>(i);
  }
  return data;
}

template <typename T>
void compare_sorts(Counts& counts, Reference reference) {
  for (int round = 0; round < 6000; ++round) {
    const size_t size = below(round % 10 == 0 ? 6000 : 300);
    const auto data = elements<T>(size, below(6));
    auto plain = data;
    set_fast_paths(false);
    reference_sort(reference, std::span(plain),
                   [](const T& a, const T& b) { return a.key < b.key; });
    set_fast_paths(true);
    auto fast = data;
    reference_sort(reference, std::span(fast),
                   [](const T& a, const T& b) { return a.key < b.key; });
    auto keyed = data;
    reference_sort_keyed(reference, std::span(keyed), [](const T*) { return true; });
    // Sorted from the front until `wanted` have been seen in place.
    auto front = data;
    const size_t wanted = below(size + 2);
    size_t seen = 0;
    bool in_place = true;
    const auto look = [&](size_t end) {
      for (; seen < end && seen < wanted; ++seen) in_place &= front[seen].id == plain[seen].id;
      return seen < wanted;
    };
    reference_sort_keyed(reference, std::span(front), [&](const T* first) {
      return look(static_cast<size_t>(first - front.data()));
    });
    look(size);
    bool equal = in_place;
    if (size > 0) {
      auto split = data;
      const size_t rank = below(size);
      equal &= reference_at_rank(reference, std::span(split), rank).id == plain[rank].id;
    }
    for (size_t i = 0; i < size; ++i) {
      equal &= plain[i].id == fast[i].id && plain[i].id == keyed[i].id;
    }
    counts.add(equal);
  }
}

Counts sorts() {
  Counts counts;
  for (const Reference reference : {Reference::libcxx, Reference::libstdcxx}) {
    compare_sorts<Keyed>(counts, reference);
    compare_sorts<KeyedInteger>(counts, reference);
  }
  return counts;
}

void print(const char* name, const Counts& counts) {
  std::printf("%s %zu %zu\n", name, counts.compared, counts.differing);
}

}  // namespace

int main(int argc, char**) {
  set_fast_paths(true);
  print("exps", exps(argc > 1 ? 1 : 211));
  print("sums", sums());
  print("bounded_sums", bounded_sums());
  print("sorts", sorts());
  print("run_orders", run_orders());
  return 0;
}

#include "core/run_order.h"

#include <algorithm>
#include <cstddef>

#include "core/reference_order_libstdcxx.h"

namespace mlx_sampling {
namespace {

using Runs = std::vector<KeyRun>;

uint32_t id_in(const KeyRun& run, size_t offset) {
  return run.first + static_cast<uint32_t>(run.step * static_cast<int32_t>(offset));
}

// `count` elements of a run from an offset on, in their order or the other way round.
KeyRun piece(const KeyRun& run, size_t offset, size_t count) {
  return {run.key, id_in(run, offset), run.step, static_cast<uint32_t>(count)};
}
KeyRun reversed(const KeyRun& run, size_t offset, size_t count) {
  return {run.key, id_in(run, offset + count - 1), -run.step, static_cast<uint32_t>(count)};
}

size_t size_of(const Runs& runs) {
  size_t size = 0;
  for (const KeyRun& run : runs) size += run.count;
  return size;
}

// Makes the element at a place a run of its own, and returns the run's index.
size_t isolate(Runs& runs, size_t place) {
  size_t index = 0;
  while (place >= runs[index].count) place -= runs[index++].count;
  const KeyRun run = runs[index];
  Runs parts;
  if (place > 0) parts.push_back(piece(run, 0, place));
  parts.push_back(piece(run, place, 1));
  if (place + 1 < run.count) parts.push_back(piece(run, place + 1, run.count - place - 1));
  runs.erase(runs.begin() + static_cast<ptrdiff_t>(index));
  runs.insert(runs.begin() + static_cast<ptrdiff_t>(index), parts.begin(), parts.end());
  return index + (place > 0 ? 1 : 0);
}

// Swaps the median of three into the first place.
void choose_pivot(Runs& runs, size_t size) {
  const auto less = [](const KeyRun& a, const KeyRun& b) { return a.key < b.key; };
  isolate(runs, 0);
  const size_t second = isolate(runs, 1);
  const size_t middle = isolate(runs, size / 2);
  const size_t last = isolate(runs, size - 1);
  KeyRun* const chosen = libstdcxx::median(&runs[second], &runs[middle], &runs[last], less);
  std::swap(runs.front(), *chosen);
}

// What libstdcxx::partition leaves left and right of the cut.
struct Halves {
  Runs left;
  Runs right;
};

Halves partition(Runs runs) {
  const int32_t pivot = runs.front().key;
  Runs left(1, runs.front());
  Runs right;  // from the end
  size_t begin = 1;
  size_t end = runs.size();
  while (true) {
    while (begin < end && runs[begin].key < pivot) left.push_back(runs[begin++]);
    while (begin < end && runs[end - 1].key > pivot) right.push_back(runs[--end]);
    if (begin == end) break;
    KeyRun& front = runs[begin];
    KeyRun& back = runs[end - 1];
    const bool one = begin + 1 == end;
    if (one && front.count == 1) {  // where the scans meet
      right.push_back(front);
      break;
    }
    // Each swap takes the next from the left and the next from the right.
    const size_t swaps = one ? front.count / 2 : std::min(front.count, back.count);
    left.push_back(reversed(back, back.count - swaps, swaps));
    right.push_back(reversed(front, 0, swaps));
    if (one) {
      front = piece(front, swaps, front.count - 2 * swaps);
      if (front.count == 0) break;
      continue;
    }
    back.count -= static_cast<uint32_t>(swaps);
    front = piece(front, swaps, front.count - swaps);
    begin += front.count == 0 ? 1 : 0;
    end -= back.count == 0 ? 1 : 0;
  }
  std::reverse(right.begin(), right.end());
  return {std::move(left), std::move(right)};
}

std::vector<KeyedInteger> elements_of(const Runs& runs) {
  std::vector<KeyedInteger> elements;
  elements.reserve(size_of(runs));
  for (const KeyRun& run : runs) {
    for (size_t i = 0; i < run.count; ++i) elements.push_back({{run.key, id_in(run, i)}});
  }
  return elements;
}

}  // namespace

KeyedInteger element_of_runs_at_rank(std::span<const KeyRun> all, size_t rank) {
  Runs runs(all.begin(), all.end());
  size_t size = size_of(runs);
  int depth = libstdcxx::greatest_depth(static_cast<ptrdiff_t>(size));
  // Short runs are quicker one by one.
  while (static_cast<ptrdiff_t>(size) > libstdcxx::short_range && depth > 0 &&
         runs.size() < size / 4) {
    --depth;
    choose_pivot(runs, size);
    Halves halves = partition(std::move(runs));
    const size_t left = size_of(halves.left);
    const bool in_left = rank < left;
    runs = std::move(in_left ? halves.left : halves.right);
    rank -= in_left ? 0 : left;
    size = in_left ? left : size - left;
  }
  std::vector<KeyedInteger> elements = elements_of(runs);
  return libstdcxx::at_rank(elements.data(), static_cast<ptrdiff_t>(size),
                            static_cast<ptrdiff_t>(rank), depth);
}

}  // namespace mlx_sampling

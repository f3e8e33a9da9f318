#include "core/row_front.h"

#include <algorithm>
#include <bit>

#include "core/clones.h"
#include "core/exp_floats.h"
#include "core/ordered_sum.h"
#include "core/radix_sort.h"
#include "core/reference_order.h"
#include "core/sort_scratch.h"

namespace mlx_sampling {
namespace {

constexpr size_t group = 16;

struct Below {
  size_t not_below;  // logits at or above the upper end
  size_t found;      // positions of those between the ends
};

// Positions of the logits whose place is at least `least` and below `end`.
MLX_SAMPLING_CLONES Below find_between(const float* __restrict logits, size_t count, float least,
                                       float end, uint32_t* __restrict positions) {
  Below result{0, 0};
  size_t i = 0;
  for (; i + group <= count; i += group) {
    int32_t any = 0;
    int32_t above = 0;
    for (size_t j = 0; j < group; ++j) {
      const float place = bucket_place(logits[i + j]);
      above += static_cast<int32_t>(place >= end);
      any |= static_cast<int32_t>(place >= least) & static_cast<int32_t>(place < end);
    }
    result.not_below += static_cast<size_t>(above);
    if (any == 0) continue;
    for (size_t j = i; j < i + group; ++j) {
      const float place = bucket_place(logits[j]);
      positions[result.found] = static_cast<uint32_t>(j);
      result.found += place >= least && place < end ? 1 : 0;
    }
  }
  for (; i < count; ++i) {
    const float place = bucket_place(logits[i]);
    result.not_below += place >= end ? 1 : 0;
    positions[result.found] = static_cast<uint32_t>(i);
    result.found += place >= least && place < end ? 1 : 0;
  }
  return result;
}

}  // namespace

bool has_buckets(const RowIndex& index) {
  return bucket_place(index.greatest_of_all()) < bucket_place_end;
}

size_t BucketGuess::buckets_for(size_t count, float rest) const {
  size_t buckets = bucket_limit;
  float left = 0;
  while (buckets > 1 && !((left += share * exps[buckets - 1]) > rest)) --buckets;
  size_t found = 0;
  for (size_t b = 0; b < buckets; ++b) found += share * counts[b];
  while (buckets < bucket_limit && found < count) found += share * counts[buckets++];
  return buckets;
}

float exp_sum_in_id_order(std::span<const float> row, float greatest, BucketGuess& guess,
                          float* all) {
  constexpr size_t chunk = 4 * block_width;
  constexpr size_t looked_at = block_width / BucketGuess::share;
  std::array<float, chunk> below;
  std::array<float, chunk> memory;
  float sum = 0;
  for (size_t begin = 0; begin < row.size(); begin += chunk) {
    const size_t count = std::min(chunk, row.size() - begin);
    float* const exps = all == nullptr ? memory.data() : all + begin;
    for (size_t i = 0; i < count; ++i) below[i] = row[begin + i] - greatest;
    exp_floats(below.data(), count, exps);
    sum = add_in_order(sum, exps, count);
    for (size_t block = 0; block < count; block += block_width) {
      for (size_t i = block; i < std::min(block + looked_at, count); ++i) {
        if (row[begin + i] < guess.ceiling) guess.add(row[begin + i], below[i], exps[i]);
      }
    }
  }
  return sum;
}

std::span<Keyed> front_of(std::span<const float> row, const RowIndex& index, size_t buckets,
                          std::vector<Keyed>& memory) {
  const float least = least_place(buckets - 1);
  if (memory.size() <= row.size()) memory.resize(row.size() + 1);  // one is written past the last
  Keyed* next = memory.data();
  for (size_t block = 0; block < index.greatest.size(); ++block) {
    if (!(bucket_place(index.greatest[block]) >= least)) continue;
    const size_t end = std::min((block + 1) * block_width, row.size());
    for (size_t i = block * block_width; i < end; ++i) {
      *next = {falling_key(row[i]), static_cast<uint32_t>(i)};
      next += bucket_place(row[i]) >= least ? 1 : 0;
    }
  }
  return {memory.data(), next};
}

namespace {

// Of logits whose low halves are 0, as widened bfloat16 has them: empty where one is not.
std::vector<LogitRun> widened_runs_of(std::span<const float> row, const RowIndex& index) {
  constexpr int half = 16;
  const int32_t base = falling_key(index.greatest_of_all()) >> half;
  const int32_t last = falling_key(index.least) >> half;
  std::vector<uint32_t> counts(static_cast<size_t>(last - base) + 1);
  for (size_t begin = 0; begin < row.size(); begin += block_width) {
    const size_t end = std::min(begin + block_width, row.size());
    uint32_t bits = 0;
    for (size_t i = begin; i < end; ++i) bits |= std::bit_cast<uint32_t>(row[i]);
    if (bits << half != 0) return {};
    for (size_t i = begin; i < end; ++i) ++counts[(falling_key(row[i]) >> half) - base];
  }
  std::vector<LogitRun> runs;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    runs.push_back({(static_cast<int32_t>(i) + base) * (1 << half), counts[i]});
  }
  return runs;
}

}  // namespace

std::vector<LogitRun> runs_of(std::span<const float> row, const RowIndex& index) {
  std::vector<LogitRun> runs = widened_runs_of(row, index);
  if (!runs.empty()) return runs;
  SortScratch& scratch = sort_scratch();
  const std::span<Keyed> all = front_of(row, index, bucket_limit, scratch.elements);
  if (scratch.radix.size() < all.size()) scratch.radix.resize(all.size());
  sort_by_key(all, scratch.radix);
  for (const Keyed& element : all) {
    if (runs.empty() || runs.back().key != element.key) runs.push_back({element.key, 0});
    ++runs.back().count;
  }
  return runs;
}

uint32_t id_at_rank(std::span<const float> row, const RowIndex& index, size_t rank, float logit,
                    Reference reference) {
  const size_t bucket = bucket_of(logit);
  const float least = least_place(bucket);
  const float end = bucket == 0 ? bucket_place_end : least_place(bucket - 1);
  std::vector<Keyed> elements;
  std::array<uint32_t, block_width + 1> positions;
  size_t above = 0;
  for (size_t block = 0; block < index.greatest.size(); ++block) {
    if (!(bucket_place(index.greatest[block]) >= least)) continue;
    const size_t begin = block * block_width;
    const size_t count = std::min(block_width, row.size() - begin);
    const Below here = find_between(row.data() + begin, count, least, end, positions.data());
    above += here.not_below;
    for (size_t i = 0; i < here.found; ++i) {
      const size_t id = begin + positions[i];
      elements.push_back({falling_key(row[id]), static_cast<uint32_t>(id)});
    }
  }
  const std::span<Keyed> all(elements);
  if (bucket != bucket_of(index.least)) return reference_at_rank(reference, all, rank - above).id;
  // llama.cpp ends with a partial sort of the last bucket that has candidates.
  reference_partial_sort(reference, all, all.size(),
                         [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
  return all[rank - above].id;
}

}  // namespace mlx_sampling

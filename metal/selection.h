// Shared by argmax.metal and greedy_argmax.metal: keys of logits, rows in memory, and the reduction.
//
// How both kernels work:
//  1. Phase 1 runs one threadgroup per chunk of 1,024 logits over a (chunks, rows) grid. A thread scans
//     its logits in ascending order and moves on only at a strictly greater key.
//  2. A threadgroup reduces its threads' picks by (greater key, then lower index): a tie goes to the
//     lowest index whatever the order of the reduction.
//  3. It writes one (key, index) partial. Phase 2, one threadgroup per row, reduces the partials by the
//     same rule. The high bit of an index carries greedy_argmax's nonfinite flag.
// Logits are compared by integer keys, so flushed denormals and fast math change nothing.
#pragma once

#include <metal_stdlib>

using namespace metal;

constant constexpr uint chunk_width = 1024;
constant constexpr uint index_mask = 0x7FFFFFFF;
constant constexpr uint nonfinite_flag = 0x80000000;
constant constexpr uint no_token = 0xFFFFFFFF;

// A [..., width] array: element i of row r is at begin(r) + i * stride.
struct Rows {
  uint width;
  uint axes;
  long start;
  long stride;
};

inline long row_begin(
    constant Rows& rows, const constant int* shape, const constant long* strides, uint row) {
  long at = rows.start;
  for (uint axis = rows.axes; axis > 0; --axis) {
    const uint size = uint(shape[axis - 1]);
    at += long(row % size) * strides[axis - 1];
    row /= size;
  }
  return at;
}

// Orders as the float does: -0.0 and 0.0 are 0, infinities are +-inf_key, NaN lies beyond them.
template <typename Word>
inline int logit_key(Word word) {
  constexpr uint sign_bit = 8 * sizeof(Word) - 1;
  const int magnitude = int(uint(word) & ((1u << sign_bit) - 1));
  return (uint(word) >> sign_bit) != 0 ? -magnitude : magnitude;
}

struct Pick {
  int key;
  uint index;
};

inline Pick make_pick(int key, uint index) {
  Pick pick;
  pick.key = key;
  pick.index = index;
  return pick;
}

// What a lane without a pick of its own adds: nothing.
inline Pick no_pick() {
  return make_pick(int(0x80000000), index_mask);
}

inline Pick better(Pick a, Pick b) {
  const uint flag = (a.index | b.index) & nonfinite_flag;
  a.index &= index_mask;
  b.index &= index_mask;
  const bool take_b = b.key > a.key || (b.key == a.key && b.index < a.index);
  return make_pick(take_b ? b.key : a.key, (take_b ? b.index : a.index) | flag);
}

inline Pick simd_better(Pick mine) {
  const int key = simd_max(mine.key);
  const uint index = simd_min(mine.key == key ? (mine.index & index_mask) : index_mask);
  const uint flag = simd_or(mine.index & nonfinite_flag);
  return make_pick(key, index | flag);
}

// The best pick of the whole threadgroup, in every thread. `keys` and `indices` hold one entry per
// simdgroup (at most 32). All threads must call it.
inline Pick threadgroup_better(
    Pick mine, threadgroup int* keys, threadgroup uint* indices, uint lane, uint simdgroup,
    uint simdgroups) {
  mine = simd_better(mine);
  if (lane == 0) {
    keys[simdgroup] = mine.key;
    indices[simdgroup] = mine.index;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  Pick theirs = no_pick();
  if (lane < simdgroups) {
    theirs = make_pick(keys[lane], indices[lane]);
  }
  return simd_better(theirs);
}

// Phase 2 of both. An index with the flag, or none, gives no_token: argmax has neither.
[[kernel]] void selection_phase2(
    const device int* partial_keys [[buffer(0)]],
    const device uint* partial_indices [[buffer(1)]],
    device uint* result [[buffer(2)]],
    constant uint& chunks [[buffer(3)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint3 tg_size [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
  threadgroup int keys[32];
  threadgroup uint indices[32];

  const ulong row = ulong(group.x) * chunks;
  Pick best = no_pick();
  for (uint chunk = lid; chunk < chunks; chunk += tg_size.x) {
    best = better(best, make_pick(partial_keys[row + chunk], partial_indices[row + chunk]));
  }
  best = threadgroup_better(best, keys, indices, lane, simdgroup, simdgroups);
  if (lid == 0) {
    result[group.x] = best.index >= index_mask ? no_token : best.index;
  }
}

// Names phase 1 of a kernel for one format: its word type and the key of infinity.
#define instantiate_phase1(stem, format, ...)                                      \
  template [[host_name(#stem "_phase1_" #format)]] [[kernel]] decltype(            \
      stem##_phase1<__VA_ARGS__>) stem##_phase1<__VA_ARGS__>;

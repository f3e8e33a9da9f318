// The fail-closed greedy pick of each row: NO_TOKEN where a raw logit is nonfinite or where no token is
// eligible. Exclusion and bitmask act inside the reduction; the logits are only read.
// selection.h says how the two phases work.
#include "selection.h"

// What may be picked: not the `excluded_count` ascending ids of `excluded`, and only tokens whose bit is
// set where there is a bitmask. `least_legal` is -inf_key where a -inf is a legal mask, else above it.
struct GreedyArgs {
  uint excluded_count;
  uint has_allowed;
  int least_legal;
};

inline bool is_excluded(const device uint* excluded, uint count, uint token) {
  uint low = 0;
  uint high = count;
  while (low < high) {
    const uint middle = (low + high) / 2;
    if (excluded[middle] < token) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count && excluded[low] == token;
}

template <typename Word, int inf_key>
[[kernel]] void greedy_argmax_phase1(
    const device Word* logits [[buffer(0)]],
    device int* partial_keys [[buffer(1)]],
    device uint* partial_indices [[buffer(2)]],
    constant Rows& rows [[buffer(3)]],
    const constant int* row_shape [[buffer(4)]],
    const constant long* row_strides [[buffer(5)]],
    constant GreedyArgs& args [[buffer(6)]],
    const device uint* excluded [[buffer(7)]],
    const device uint* allowed [[buffer(8)]],
    constant Rows& allowed_rows [[buffer(9)]],
    const constant int* allowed_shape [[buffer(10)]],
    const constant long* allowed_strides [[buffer(11)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint3 groups [[threadgroups_per_grid]],
    uint lid [[thread_index_in_threadgroup]],
    uint3 tg_size [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]]) {
  threadgroup int keys[32];
  threadgroup uint indices[32];

  const device Word* row = logits + row_begin(rows, row_shape, row_strides, group.y);
  const device uint* mask =
      allowed + row_begin(allowed_rows, allowed_shape, allowed_strides, group.y);
  const uint begin = group.x * chunk_width;
  const uint end = min(begin + chunk_width, rows.width);
  Pick best = make_pick(-inf_key, index_mask);
  uint flag = 0;
  for (uint i = begin + lid; i < end; i += tg_size.x) {
    const int key = logit_key(row[long(i) * rows.stride]);
    if (key >= inf_key || key < args.least_legal) {
      flag = nonfinite_flag;
    }
    if (key > best.key && !is_excluded(excluded, args.excluded_count, i) &&
        (args.has_allowed == 0 ||
         ((mask[long(i / 32) * allowed_rows.stride] >> (i % 32)) & 1) != 0)) {
      best = make_pick(key, i);
    }
  }
  best.index |= flag;
  best = threadgroup_better(best, keys, indices, lane, simdgroup, simdgroups);
  if (lid == 0) {
    const ulong at = ulong(group.y) * groups.x + group.x;
    partial_keys[at] = best.key;
    partial_indices[at] = best.index;
  }
}

instantiate_phase1(greedy_argmax, float32, uint, 0x7F800000)
instantiate_phase1(greedy_argmax, float16, ushort, 0x7C00)
instantiate_phase1(greedy_argmax, bfloat16, ushort, 0x7F80)

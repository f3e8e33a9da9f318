// First maximum of each row: NaN never wins, a row with nothing above -inf gives 0.
// selection.h says how the two phases work.
#include "selection.h"

template <typename Word, int inf_key>
[[kernel]] void argmax_phase1(
    const device Word* logits [[buffer(0)]],
    device int* partial_keys [[buffer(1)]],
    device uint* partial_indices [[buffer(2)]],
    constant Rows& rows [[buffer(3)]],
    const constant int* row_shape [[buffer(4)]],
    const constant long* row_strides [[buffer(5)]],
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
  const uint begin = group.x * chunk_width;
  const uint end = min(begin + chunk_width, rows.width);
  Pick best = make_pick(-inf_key, 0);
  for (uint i = begin + lid; i < end; i += tg_size.x) {
    const int key = logit_key(row[long(i) * rows.stride]);
    if (key > best.key && key <= inf_key) {
      best = make_pick(key, i);
    }
  }
  best = threadgroup_better(best, keys, indices, lane, simdgroup, simdgroups);
  if (lid == 0) {
    const ulong at = ulong(group.y) * groups.x + group.x;
    partial_keys[at] = best.key;
    partial_indices[at] = best.index;
  }
}

instantiate_phase1(argmax, float32, uint, 0x7F800000)
instantiate_phase1(argmax, float16, ushort, 0x7C00)
instantiate_phase1(argmax, bfloat16, ushort, 0x7F80)

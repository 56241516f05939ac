#pragma once
// What all attention operators become: heads as a dimension, the cache joined, one attention node. Used by
// op_attention.cpp (ONNX) and op_attention_microsoft.cpp (com.microsoft).
#include "import/lowering.h"

namespace rtx::import {

struct Attention {
  ValueId q = ir::kNoValue, k = ir::kNoValue, v = ir::kNoValue;  // [B,H,S,D]
  ValueId mask = ir::kNoValue;                                   // bool or the type of q
  ValueId valid_length = ir::kNoValue;                           // i64 [B]
  double scale = 1, softcap = 0;
  bool causal = false;
  int64_t past =
      0;  // keys before the first query; with a valid length and 0: valid length - queries, per batch
  int64_t window_left = -1, window_right = -1;
};

// [B,S,H*D] -> [B,H,S,D] and back. `role` is for messages.
ValueId split_heads(Lowering& l, ValueId x, int64_t heads, const char* role);
ValueId merge_heads(Lowering& l, ValueId x);
// Keys or values of the past in front of fresh ones; `past` may be absent or empty.
ValueId joined_cache(Lowering& l, ValueId past, ValueId fresh);
// The cache with the rows of `fresh` written along `axis` from start[b] on (i64 [B]).
ValueId written_rows(Lowering& l, ValueId cache, ValueId fresh, ValueId start, int64_t axis, bool circular);
// A bool mask narrows; a float mask gets -inf where `allowed` is false.
ValueId narrowed(Lowering& l, ValueId mask, ValueId allowed, DType dtype);
ValueId attention_node(Lowering& l, Attention a);
void check_head_groups(int64_t query_heads, int64_t key_heads);

}  // namespace rtx::import

// com.microsoft: Attention with its projection inside, MultiHeadAttention, GroupQueryAttention and the
// embedding in front of them. Formulas: docs/ContribOperators.md of ONNX Runtime.
#include <algorithm>
#include <cmath>

#include "import/attention.h"
#include "import/operators.h"

namespace rtx::import {
namespace {

ValueId as_i64(Lowering& l, ValueId x) { return l.cast(x, DType::i64); }

// A row of key positions 0 .. keys - 1 that broadcasts over [B,1,S,keys].
ValueId key_positions(Lowering& l, int64_t keys) { return l.iota(DType::i64, keys, {1, 1, 1, keys}); }

// Which keys a mask lets be seen: bool [B,1,1 or S,keys]. `mask` is one of
//   [B]                      keys before the end
//   [B,keys], [B,S,keys]     0 hides
//   [B,1,M,M]                0 hides; the last S rows up to keys
ValueId seen_keys(Lowering& l, ValueId mask, int64_t batch, int64_t queries, int64_t keys) {
  const Extents n = l.shape(mask);
  if (n == Extents{batch})
    return l.binary(Op::less, key_positions(l, keys), l.reshape(as_i64(l, mask), {batch, 1, 1, 1}));
  if (n == Extents{2 * batch}) unsupported("its mask has ends and starts of sequences");
  ValueId numbers = ir::kNoValue;
  if (n == Extents{batch, keys})
    numbers = l.reshape(mask, {batch, 1, 1, keys});
  else if (n == Extents{batch, queries, keys})
    numbers = l.reshape(mask, {batch, 1, queries, keys});
  else if (n.size() == 4 && n[0] == batch && n[1] == 1 && n[2] >= keys && n[3] >= keys && keys >= queries)
    numbers = l.slice_axis(l.slice_axis(mask, 2, keys - queries, queries), 3, 0, keys);
  else if (n.size() == 1 && n[0] == 3 * batch + 2)
    unsupported("its mask is for packed sequences");
  else
    fail("the mask has shape " + ir::text(n) + "; with batch " + std::to_string(batch) + ", " +
         std::to_string(queries) + " queries and " + std::to_string(keys) +
         " keys it may be [B], [B,keys], [B,queries,keys] or [B,1,M,M]");
  return l.binary(Op::less, l.scalar_like(numbers, 0), numbers);
}

// ONNX Runtime adds mask_filter_value where a key is hidden. One of -1000 and less leaves nothing of a hidden
// key, unless a query sees no key at all: then all have lost the same, and it sees them all. Said so, nothing
// is lost to the rounding of a score beside -10000.
ValueId mask_of(Lowering& l, ValueId given, const Attention& a) {
  const Extents n = l.shape(a.q);
  const int64_t queries = n[2], keys = l.shape(a.k)[2];
  const ValueId seen = seen_keys(l, given, n[0], queries, keys);
  if (const double filter = l.real("mask_filter_value", -10000); filter > -1000)
    return l.where(seen, l.scalar(l.dtype(a.q), 0), l.scalar(l.dtype(a.q), filter));
  const ValueId none = l.constant(ir::HostTensor::from_ints({keys}).reshaped({}));
  const ValueId first = l.reduce(Op::reduce_min, l.where(seen, key_positions(l, keys), none), {3}, true);
  const ValueId last = a.causal ? l.binary(Op::add, l.iota(DType::i64, queries, {1, 1, queries, 1}),
                                           l.constant(ir::HostTensor::from_ints({a.past}).reshaped({})))
                                : l.constant(ir::HostTensor::from_ints({keys - 1}).reshaped({}));
  return l.binary(Op::logical_or, seen, l.binary(Op::less, last, first));
}

void add_to_mask(Lowering& l, Attention& a, ValueId bias) {
  bias = l.cast(bias, l.dtype(a.q));
  if (a.mask == ir::kNoValue)
    a.mask = bias;
  else if (l.dtype(a.mask) == DType::boolean)
    a.mask = narrowed(l, bias, a.mask, l.dtype(a.q));
  else
    a.mask = l.binary(Op::add, a.mask, bias);
}

double scale_of(Lowering& l, const Attention& a) {
  const double given = l.real("scale", 0);
  return given != 0 ? given : 1.0 / std::sqrt(static_cast<double>(l.shape(a.q)[3]));
}

// [2,B,N,S,H]: keys, then values.
ValueId stacked(Lowering& l, ValueId k, ValueId v) {
  const auto one = [&](ValueId x) {
    Extents n = l.shape(x);
    n.insert(n.begin(), 1);
    return l.reshape(x, n);
  };
  return l.concat({one(k), one(v)}, 0);
}

ValueId half_of(Lowering& l, ValueId past, int64_t which) {
  Extents n = l.shape(past);
  n.erase(n.begin());
  return l.reshape(l.slice_axis(past, 0, which, 1), n);
}

void attention_with_projection(Lowering& l) {
  if (l.integer("do_rotary", 0) != 0) unsupported("it rotates inside");
  if (l.integer("past_present_share_buffer", 0) != 0) unsupported("its past and present share one buffer");
  l.need_rank(l.in(0), 3, "the input");
  l.need_rank(l.in(1), 2, "the weights");
  const int64_t heads = l.required_integer("num_heads");
  const int64_t columns = l.shape(l.in(1))[1];
  const Extents sizes =
      l.integers("qkv_hidden_sizes").value_or(Extents{columns / 3, columns / 3, columns / 3});
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != columns || sizes[0] != sizes[1])
    fail("the weights have " + std::to_string(columns) + " columns, which are not q, k and v of sizes " +
         ir::text(sizes));
  ValueId qkv = l.matmul(l.in(0), l.in(1));
  if (l.has(2)) qkv = l.binary(Op::add, qkv, l.in(2));
  Attention a;
  a.q = split_heads(l, l.slice_axis(qkv, 2, 0, sizes[0]), heads, "q");
  a.k = split_heads(l, l.slice_axis(qkv, 2, sizes[0], sizes[1]), heads, "k");
  a.v = split_heads(l, l.slice_axis(qkv, 2, sizes[0] + sizes[1], sizes[2]), heads, "v");
  if (l.has(4)) {
    l.need_rank(l.in(4), 5, "the past");
    a.past = l.shape(l.in(4))[3];
    a.k = joined_cache(l, half_of(l, l.in(4), 0), a.k);
    a.v = joined_cache(l, half_of(l, l.in(4), 1), a.v);
  }
  if (l.wants(1)) l.out(1, stacked(l, a.k, a.v));
  a.scale = scale_of(l, a);
  a.causal = l.integer("unidirectional", 0) != 0;
  if (l.has(3)) a.mask = mask_of(l, l.in(3), a);
  if (l.has(5)) add_to_mask(l, a, l.in(5));
  l.out(0, merge_heads(l, attention_node(l, a)));
}

// [B,S,N,parts,H], packed, as its parts [B,S,N*H].
std::vector<ValueId> unpacked(Lowering& l, ValueId x, int64_t parts) {
  const Extents n = l.shape(x);
  if (n.size() != 5 || n[3] != parts)
    fail("packed projections have shape " + ir::text(n) + ", expected [B,S,heads," + std::to_string(parts) +
         ",size]");
  std::vector<ValueId> out;
  for (int64_t part = 0; part < parts; ++part)
    out.push_back(l.reshape(l.slice_axis(x, 3, part, 1), {n[0], n[1], n[2] * n[4]}));
  return out;
}

void multi_head_attention(Lowering& l) {
  if (l.has(8) || l.has(9)) unsupported("its past and present share one buffer");
  const int64_t heads = l.required_integer("num_heads");
  std::vector<ValueId> parts;
  if (l.has(1) && l.rank(l.in(1)) == 5) {
    parts = unpacked(l, l.in(1), 2);
    parts.insert(parts.begin(), l.in(0));
  } else if (l.has(1)) {
    if (!l.has(2)) fail("there is a key but no value");
    parts = {l.in(0), l.in(1), l.in(2)};
  } else {
    parts = unpacked(l, l.in(0), 3);
  }
  int64_t column = 0;
  for (ValueId& x : parts) {
    if (!l.has(3)) break;
    if (l.rank(x) != 3) unsupported("it has a bias and keys with heads of their own dimension");
    const int64_t width = l.shape(x)[2];
    x = l.binary(Op::add, x, l.slice_axis(l.in(3), 0, column, width));
    column += width;
  }
  const auto with_heads = [&](ValueId x, const char* role) {
    return l.rank(x) == 4 ? x : split_heads(l, x, heads, role);
  };
  Attention a;
  a.q = with_heads(parts[0], "query");
  a.k = with_heads(parts[1], "key");
  a.v = with_heads(parts[2], "value");
  if (l.has(6) != l.has(7)) fail("past_key and past_value come together");
  if (l.has(6)) a.past = l.shape(l.in(6))[2];
  a.k = joined_cache(l, l.in_or_none(6), a.k);
  a.v = joined_cache(l, l.in_or_none(7), a.v);
  l.out(1, a.k);
  l.out(2, a.v);
  if (l.wants(3)) unsupported("its scores are asked for");
  a.scale = scale_of(l, a);
  a.causal = l.integer("unidirectional", 0) != 0;
  if (l.has(4)) a.mask = mask_of(l, l.in(4), a);
  if (l.has(5)) add_to_mask(l, a, l.in(5));
  l.out(0, merge_heads(l, attention_node(l, a)));
}

struct GroupQuery {
  Attention a;
  int64_t heads = 0, key_heads = 0;
};

GroupQuery group_query_operands(Lowering& l) {
  GroupQuery g;
  g.heads = l.required_integer("num_heads");
  g.key_heads = l.required_integer("kv_num_heads");
  check_head_groups(g.heads, g.key_heads);
  ValueId q = l.in(0), k = l.in_or_none(1), v = l.in_or_none(2);
  l.need_rank(q, 3, "the query");
  if (k == ir::kNoValue) {
    const int64_t size = l.shape(q)[2] / (g.heads + 2 * g.key_heads);
    if (size * (g.heads + 2 * g.key_heads) != l.shape(q)[2])
      fail("packed q, k and v " + ir::text(l.shape(q)) + " are not " +
           std::to_string(g.heads + 2 * g.key_heads) + " heads");
    k = l.slice_axis(q, 2, size * g.heads, size * g.key_heads);
    v = l.slice_axis(q, 2, size * (g.heads + g.key_heads), size * g.key_heads);
    q = l.slice_axis(q, 2, 0, size * g.heads);
  } else if (v == ir::kNoValue) {
    fail("there is a key but no value");
  }
  g.a.q = split_heads(l, q, g.heads, "query");
  g.a.k = split_heads(l, k, g.key_heads, "key");
  g.a.v = split_heads(l, v, g.key_heads, "value");
  return g;
}

// Valid keys of a batch are seqlens_k + 1, the last S of them this call's own. The present has room for the
// past and S more, or is as long as a past that already has room for total_sequence_length. Without a past
// query i stands at position i: the keys before it are valid, or its own row is padding.
void group_query_attention(Lowering& l) {
  if (l.integer("do_rotary", 0) != 0) unsupported("it rotates inside");
  if (l.has(11) || l.integer("smooth_softmax", 0) == 1) unsupported("its softmax has a sink");
  if (l.wants(3)) unsupported("its scores are asked for");
  auto [a, heads, key_heads] = group_query_operands(l);
  const Extents n = l.shape(a.q);
  const int64_t queries = n[2];
  const ValueId total = l.binary(Op::add, l.reshape(as_i64(l, l.in(5)), {n[0]}), l.scalar(DType::i64, 1));
  if (l.has(3) != l.has(4)) fail("past_key and past_value come together");
  const int64_t past = l.has(3) ? l.shape(l.in(3))[2] : 0;
  if (past > 0) {
    const ValueId start = l.binary(Op::sub, total, l.scalar(DType::i64, static_cast<double>(queries)));
    const bool has_room = l.is_constant(l.in(6)) && l.tensor(6, "total_sequence_length").get_int(0) <= past;
    const auto present = [&](int i, ValueId fresh) {
      if (!has_room && n[0] == 1)
        return joined_cache(l, l.in(i), fresh);  // of one sequence, all of the past is valid
      const ValueId cache = has_room ? l.cast(l.in(i), l.dtype(fresh)) : joined_cache(l, l.in(i), fresh);
      return written_rows(l, cache, fresh, start, 2, false);
    };
    a.k = present(3, a.k);
    a.v = present(4, a.v);
    a.valid_length = total;
  }
  l.out(1, a.k);
  l.out(2, a.v);
  a.causal = true;
  a.scale = scale_of(l, a);
  a.softcap = std::max(l.real("softcap", 0), 0.0);
  if (const int64_t window = l.integer("local_window_size", -1); window > 0) a.window_left = window - 1;
  if (l.has(10)) add_to_mask(l, a, l.in(10));
  l.out(0, merge_heads(l, attention_node(l, a)));
}

void embed_layer_norm(Lowering& l) {
  const ValueId ids = l.in(0);
  l.need_rank(ids, 2, "input_ids");
  const Extents n = l.shape(ids);
  ValueId sum = l.gather(l.in(2), as_i64(l, ids), 0);
  const ValueId positions = l.has(8) ? as_i64(l, l.in(8)) : l.iota(DType::i64, n[1], {1, n[1]});
  sum = l.binary(Op::add, sum, l.gather(l.in(3), positions, 0));
  if (l.has(4) != l.has(1)) fail("segment ids and their embedding come together");
  if (l.has(4)) sum = l.binary(Op::add, sum, l.gather(l.in(4), as_i64(l, l.in(1)), 0));
  l.out(2, sum);
  if (l.wants(1)) {
    const ValueId count = l.has(7) ? l.reduce(Op::reduce_sum, l.cast(l.in(7), DType::i32), {1}, false)
                                   : l.expand(l.scalar(DType::i32, 0), {n[0]});
    l.out(1, count);
  }
  const auto results = l.nodes_of(Op::layer_norm, {sum, l.in(5), l.in(6)}, 1,
                                  attrs({{"axis", int64_t{2}}, {"epsilon", l.real("epsilon", 1e-12F)}}));
  l.out(0, results[0]);
}

}  // namespace

OperatorRows microsoft_attention_operators() {
  return {
      {"com.microsoft::Attention", attention_with_projection},
      {"com.microsoft::MultiHeadAttention", multi_head_attention},
      {"com.microsoft::GroupQueryAttention", group_query_attention},
      {"com.microsoft::EmbedLayerNormalization", embed_layer_norm},
  };
}

}  // namespace rtx::import

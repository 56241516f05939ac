// ONNX Attention: brought to four dimensions, cache joined, mask completed, then one attention node. What the
// node cannot say (a causal frontier that differs per batch, the scores as a result) is written out.
#include <algorithm>
#include <cmath>
#include <limits>

#include "import/attention.h"
#include "import/operators.h"

namespace rtx::import {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

ValueId split_heads(Lowering& l, ValueId x, int64_t heads, const char* role) {
  const Extents n = l.shape(x);
  if (heads <= 0 || n[2] % heads != 0)
    fail(std::to_string(heads) + " heads do not divide the hidden size of " + role + " " + ir::text(n));
  return l.transpose(l.reshape(x, {n[0], n[1], heads, n[2] / heads}), {0, 2, 1, 3});
}

ValueId merge_heads(Lowering& l, ValueId x) {
  const Extents n = l.shape(x);
  return l.reshape(l.transpose(x, {0, 2, 1, 3}), {n[0], n[2], n[1] * n[3]});
}

ValueId joined_cache(Lowering& l, ValueId past, ValueId fresh) {
  if (past == ir::kNoValue || l.shape(past)[2] == 0) return fresh;
  return l.concat({l.cast(past, l.dtype(fresh)), fresh}, 2);
}

ValueId written_rows(Lowering& l, ValueId cache, ValueId fresh, ValueId start, int64_t axis, bool circular) {
  return l.node_of(Op::tensor_scatter, {cache, fresh, start},
                   attrs({{"axis", axis}, {"circular", int64_t{circular}}}));
}

void check_head_groups(int64_t query_heads, int64_t key_heads) {
  if (key_heads == 0 || query_heads % key_heads != 0)
    fail(std::to_string(query_heads) + " query heads are not a multiple of " + std::to_string(key_heads) +
         " key heads");
}

namespace {

// Keys past the mask's end are masked.
ValueId completed_mask(Lowering& l, ValueId mask, const Attention& a) {
  const int64_t keys = l.shape(a.k)[2];
  if (l.rank(mask) == 0) mask = l.reshape(mask, {1});
  if (l.rank(mask) > 4)
    fail("the mask has shape " + ir::text(l.shape(mask)) + ", expected at most four dimensions");
  const bool boolean = l.dtype(mask) == DType::boolean;
  if (!boolean) mask = l.cast(mask, l.dtype(a.q));
  Extents rest = l.shape(mask);
  if (rest.back() >= keys) return mask;
  rest.back() = keys - rest.back();
  const ValueId fill = l.expand(l.scalar(l.dtype(mask), boolean ? 0 : -kInfinity), rest);
  return l.concat({mask, fill}, static_cast<int64_t>(rest.size()) - 1);
}

}  // namespace

ValueId narrowed(Lowering& l, ValueId mask, ValueId allowed, DType dtype) {
  if (mask == ir::kNoValue) return allowed;
  if (l.dtype(mask) == DType::boolean) return l.binary(Op::logical_and, mask, allowed);
  return l.where(allowed, mask, l.scalar(dtype, -kInfinity));
}

namespace {

// Which keys j a query i may see by causality and windows, counted from the first key of the query block: p =
// i + offset, j <= p, p - left <= j <= p + right. `offset` is a number, or differs per batch with the valid
// length. Absent: all.
ValueId positions_allowed(Lowering& l, const Attention& a, bool per_batch) {
  const int64_t queries = l.shape(a.q)[2];
  const int64_t keys = l.shape(a.k)[2];
  if (!a.causal && a.window_left < 0 && a.window_right < 0) return ir::kNoValue;
  const auto number = [&](int64_t value) {
    return l.constant(ir::HostTensor::from_ints({value}).reshaped({}));
  };
  const ValueId i = l.iota(DType::i64, queries, {queries, 1});
  const ValueId j = l.iota(DType::i64, keys, {1, keys});
  const ValueId offset =
      per_batch ? l.binary(Op::sub, l.reshape(a.valid_length, {l.shape(a.q)[0], 1, 1, 1}), number(queries))
                : number(a.past);
  const ValueId p = l.binary(Op::add, i, offset);
  ValueId allowed = ir::kNoValue;
  const auto also = [&](ValueId one) {
    allowed = allowed == ir::kNoValue ? one : l.binary(Op::logical_and, allowed, one);
  };
  if (a.causal) also(l.binary(Op::less_equal, j, p));
  if (a.window_left >= 0) also(l.binary(Op::less_equal, p, l.binary(Op::add, j, number(a.window_left))));
  if (a.window_right >= 0) also(l.binary(Op::less_equal, j, l.binary(Op::add, p, number(a.window_right))));
  return allowed;
}

ValueId repeated_heads(Lowering& l, ValueId x, int64_t heads) {
  const Extents n = l.shape(x);
  if (n[1] == heads) return x;
  return l.reshape(
      l.expand(l.reshape(x, {n[0], n[1], 1, n[2], n[3]}), {n[0], n[1], heads / n[1], n[2], n[3]}),
      {n[0], heads, n[2], n[3]});
}

// The scores as a result of their own. mode: 0 products, 1 after softcap, 2 with the mask, 3 after softmax
// (an empty row gives 0).
ValueId scores(Lowering& l, const Attention& a, int64_t mode, int64_t softmax_precision) {
  const DType dtype = l.dtype(a.q);
  const Extents qn = l.shape(a.q);
  const ValueId k = repeated_heads(l, a.k, qn[1]);
  ValueId s = l.binary(Op::mul, l.matmul(a.q, k, false, true), l.scalar(dtype, a.scale));
  if (mode == 0) return s;
  if (a.softcap > 0) {
    const ValueId cap = l.scalar(dtype, a.softcap);
    s = l.binary(Op::mul, l.unary(Op::tanh, l.binary(Op::div, s, cap)), cap);
  }
  if (mode == 1) return s;
  const int64_t keys = l.shape(k)[2];
  ValueId allowed = positions_allowed(l, a, a.valid_length != ir::kNoValue && a.past == 0);
  if (a.valid_length != ir::kNoValue) {
    const ValueId valid = l.binary(Op::less, l.iota(DType::i64, keys, {1, 1, 1, keys}),
                                   l.reshape(a.valid_length, {qn[0], 1, 1, 1}));
    allowed = allowed == ir::kNoValue ? valid : l.binary(Op::logical_and, allowed, valid);
  }
  ValueId bias = a.mask;
  if (bias != ir::kNoValue && l.dtype(bias) == DType::boolean)
    bias = l.where(bias, l.scalar(dtype, 0), l.scalar(dtype, -kInfinity));
  if (allowed != ir::kNoValue)
    bias = l.where(allowed, bias == ir::kNoValue ? l.scalar(dtype, 0) : bias, l.scalar(dtype, -kInfinity));
  if (bias != ir::kNoValue) s = l.binary(Op::add, s, bias);
  if (mode == 2) return s;
  DType precision = dtype;
  if (softmax_precision == 1) precision = DType::f32;
  if (softmax_precision == 11) precision = DType::f64;
  ValueId p = l.cast(l.softmax(l.cast(s, precision), 3), dtype);
  if (bias == ir::kNoValue) return p;
  const ValueId largest = l.reduce(Op::reduce_max, bias, {l.rank(bias) - 1}, true);
  return l.where(l.binary(Op::equal, largest, l.scalar(dtype, -kInfinity)), l.scalar(dtype, 0), p);
}

}  // namespace

ValueId attention_node(Lowering& l, Attention a) {
  const bool per_batch = a.valid_length != ir::kNoValue && a.past == 0;
  const bool windows = a.window_left >= 0 || a.window_right >= 0;
  if (per_batch && l.shape(a.q)[2] == 1) a.causal = false;  // the last position sees all that is valid
  if ((a.causal && per_batch) || windows) {
    a.mask = narrowed(l, a.mask, positions_allowed(l, a, per_batch), l.dtype(a.q));
    a.causal = false;
  }
  std::vector<ValueId> inputs{a.q, a.k, a.v};
  if (a.mask != ir::kNoValue || a.valid_length != ir::kNoValue) inputs.push_back(a.mask);
  if (a.valid_length != ir::kNoValue) inputs.push_back(a.valid_length);
  return l.node_of(Op::attention, inputs,
                   attrs({{"scale", a.scale},
                          {"softcap", a.softcap},
                          {"causal", int64_t{a.causal}},
                          {"causal_offset", a.causal ? a.past : 0},
                          {"window_left", int64_t{-1}},
                          {"window_right", int64_t{-1}},
                          {"empty_row_nan", int64_t{0}}}));
}

namespace {

void attention_operator(Lowering& l) {
  Attention a;
  a.q = l.in(0);
  a.k = l.in(1);
  a.v = l.in(2);
  const int64_t rank = l.rank(a.q);
  if ((rank != 3 && rank != 4) || l.rank(a.k) != rank || l.rank(a.v) != rank)
    fail("Q " + ir::text(l.shape(a.q)) + ", K " + ir::text(l.shape(a.k)) + " and V " +
         ir::text(l.shape(a.v)) + " must all have three or all have four dimensions");
  if (l.has(4) != l.has(5)) fail("past_key and past_value come together");
  const DType dtype = l.dtype(a.q);
  if (rank == 3) {
    const int64_t heads = l.required_integer("q_num_heads");
    const int64_t key_heads = l.required_integer("kv_num_heads");
    a.q = split_heads(l, a.q, heads, "Q");
    a.k = split_heads(l, a.k, key_heads, "K");
    a.v = split_heads(l, a.v, key_heads, "V");
  }
  for (int i : {4, 5})
    if (l.has(i)) l.need_rank(l.in(i), 4, "a past cache");
  a.past = l.has(4) ? l.shape(l.in(4))[2] : 0;
  a.k = joined_cache(l, l.in_or_none(4), a.k);
  a.v = joined_cache(l, l.in_or_none(5), a.v);
  l.out(1, a.k);
  l.out(2, a.v);
  a.k = l.cast(a.k, dtype);
  a.v = l.cast(a.v, dtype);
  const int64_t query_heads = l.shape(a.q)[1];
  const int64_t key_heads = l.shape(a.k)[1];
  check_head_groups(query_heads, key_heads);
  a.scale = l.attribute("scale") ? l.real("scale", 1) : 1.0 / std::sqrt(static_cast<double>(l.shape(a.q)[3]));
  a.softcap = std::max(l.real("softcap", 0), 0.0);
  a.causal = l.integer("is_causal", 0) != 0;
  if (l.version() >= 25) {
    const auto window = [&](const char* name) {
      const int64_t size = l.integer(name, -1);
      if (size < -1) fail(std::string(name) + " is " + std::to_string(size) + ", expected -1 or a size");
      return size > kLongestCount ? -1 : size;
    };
    a.window_left = window("left_window_size");
    a.window_right = window("right_window_size");
  }
  if (l.has(3)) a.mask = completed_mask(l, l.in(3), a);
  if (l.has(6)) a.valid_length = l.reshape(l.cast(l.in(6), DType::i64), {l.shape(a.q)[0]});
  if (l.wants(3))
    l.out(3, scores(l, a, l.integer("qk_matmul_output_mode", 0), l.integer("softmax_precision", 0)));
  if (!l.wants(0)) return;
  ValueId y = attention_node(l, a);
  if (rank == 3) y = merge_heads(l, y);
  l.out(0, y);
}

// A cache of fixed size: rows written from write_indices[b] on, from the first where there are none.
void tensor_scatter_operator(Lowering& l) {
  const std::string mode = l.text("mode", "linear");
  if (mode != "linear" && mode != "circular") fail("mode is '" + mode + "', expected linear or circular");
  const Extents n = l.shape(l.in(0));
  if (n.empty()) fail("the cache has no dimensions");
  const ValueId start =
      l.has(2) ? l.reshape(l.cast(l.in(2), DType::i64), {n[0]}) : l.expand(l.scalar(DType::i64, 0), {n[0]});
  l.out(0, written_rows(l, l.in(0), l.in(1), start, l.axis(l.integer("axis", -2), l.rank(l.in(0))),
                        mode == "circular"));
}

}  // namespace

OperatorRows attention_operators() {
  return {{"Attention", attention_operator}, {"TensorScatter", tensor_scatter_operator}};
}

}  // namespace rtx::import

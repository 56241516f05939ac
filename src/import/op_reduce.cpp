// Reductions along axes, and what is written out over them.
#include <algorithm>
#include <limits>

#include "import/operators.h"

namespace rtx::import {
namespace {

struct Reduction {
  Extents axes;
  bool keepdims = true;
  bool identity = false;  // no axes, and none meant
};

// An axis named twice is reduced once.
Extents distinct(Lowering& l, const Extents& given, int64_t rank) {
  Extents out;
  for (int64_t one : given) {
    const int64_t axis = l.axis(one, rank);
    if (std::find(out.begin(), out.end(), axis) == out.end()) out.push_back(axis);
  }
  return l.axes(out, rank);
}

Reduction reduction_of(Lowering& l) {
  const ValueId x = l.in(0);
  Reduction out;
  out.keepdims = l.integer("keepdims", 1) != 0;
  const auto given = l.ints_of("axes", 1);
  if (given && !given->empty()) {
    out.axes = distinct(l, *given, l.rank(x));
  } else if (l.integer("noop_with_empty_axes", 0) != 0) {
    out.identity = true;
  } else {
    for (int64_t i = 0; i < l.rank(x); ++i) out.axes.push_back(i);
  }
  return out;
}

template <Op op>
void reduce_operator(Lowering& l) {
  const Reduction r = reduction_of(l);
  l.out(0, r.identity ? l.in(0) : l.reduce(op, l.in(0), r.axes, r.keepdims));
}

ValueId sum_of(Lowering& l, ValueId x, const Reduction& r) {
  return r.identity ? x : l.reduce(Op::reduce_sum, x, r.axes, r.keepdims);
}

void sum_square_operator(Lowering& l) {
  l.out(0, sum_of(l, l.binary(Op::mul, l.in(0), l.in(0)), reduction_of(l)));
}

void l1_operator(Lowering& l) { l.out(0, sum_of(l, l.unary(Op::abs, l.in(0)), reduction_of(l))); }

ValueId square_root(Lowering& l, ValueId x) {
  const DType dtype = l.dtype(x);
  return ir::is_floating(dtype) ? l.unary(Op::sqrt, x)
                                : l.cast(l.unary(Op::sqrt, l.cast(x, DType::f64)), dtype);
}

void l2_operator(Lowering& l) {
  l.out(0, square_root(l, sum_of(l, l.binary(Op::mul, l.in(0), l.in(0)), reduction_of(l))));
}

void log_sum_operator(Lowering& l) { l.out(0, l.unary(Op::log, sum_of(l, l.in(0), reduction_of(l)))); }

// log(sum(exp(x - m))) + m with m the largest entry, 0 where that is not finite.
void log_sum_exp_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const Reduction r = reduction_of(l);
  if (r.identity) return l.out(0, x);
  const ValueId largest = l.reduce(Op::reduce_max, x, r.axes, true);
  const ValueId finite = l.binary(Op::less, l.unary(Op::abs, largest),
                                  l.scalar_like(x, std::numeric_limits<double>::infinity()));
  const ValueId shift = l.where(finite, largest, l.scalar_like(x, 0));
  const ValueId sum = l.reduce(Op::reduce_sum, l.unary(Op::exp, l.binary(Op::sub, x, shift)), r.axes, true);
  const ValueId kept = l.binary(Op::add, l.unary(Op::log, sum), shift);
  if (r.keepdims) return l.out(0, kept);
  Extents extents;
  for (size_t i = 0, next = 0; i < l.shape(x).size(); ++i) {
    if (next < r.axes.size() && r.axes[next] == static_cast<int64_t>(i))
      ++next;
    else
      extents.push_back(l.shape(x)[i]);
  }
  l.out(0, l.reshape(kept, extents));
}

template <Op op>
void global_operator(Lowering& l) {
  const ValueId x = l.in(0);
  if (l.rank(x) < 2)
    fail("the input has shape " + ir::text(l.shape(x)) + ", expected a batch and channels first");
  Extents axes;
  for (int64_t i = 2; i < l.rank(x); ++i) axes.push_back(i);
  l.out(0, l.reduce(op, x, axes, true));
}

// Before version 13 the tensor is seen as a matrix whose rows end at `axis`.
template <Op op>
void softmax_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const Extents from = l.shape(x);
  const bool flattens = l.version() < 13;
  if (from.empty())
    return l.out(0, l.reshape(l.node_of(op, {l.reshape(x, {1})}, attrs({{"axis", int64_t{0}}})), {}));
  const int64_t axis = l.axis(l.integer("axis", flattens ? 1 : -1), l.rank(x));
  const auto at = static_cast<size_t>(axis);
  if (!flattens || product(from, at + 1) == 1) return l.out(0, l.node_of(op, {x}, attrs({{"axis", axis}})));
  const ValueId matrix = l.reshape(x, {product(from, 0, at), product(from, at)});
  l.out(0, l.reshape(l.node_of(op, {matrix}, attrs({{"axis", int64_t{1}}})), from));
}

}  // namespace

OperatorRows reduction_operators() {
  const uint32_t axes = 1u << 1;
  return {
      {"ReduceSum", reduce_operator<Op::reduce_sum>, axes},
      {"ReduceMean", reduce_operator<Op::reduce_mean>, axes},
      {"ReduceMax", reduce_operator<Op::reduce_max>, axes},
      {"ReduceMin", reduce_operator<Op::reduce_min>, axes},
      {"ReduceSumSquare", sum_square_operator, axes},
      {"ReduceL1", l1_operator, axes},
      {"ReduceL2", l2_operator, axes},
      {"ReduceLogSum", log_sum_operator, axes},
      {"ReduceLogSumExp", log_sum_exp_operator, axes},
      {"GlobalAveragePool", global_operator<Op::reduce_mean>},
      {"GlobalMaxPool", global_operator<Op::reduce_max>},
      {"Softmax", softmax_operator<Op::softmax>},
      {"LogSoftmax", softmax_operator<Op::log_softmax>},
  };
}

}  // namespace rtx::import

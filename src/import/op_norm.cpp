// Normalisations over trailing axes, over channels, and with a residual in front.
#include <algorithm>

#include "import/operators.h"

namespace rtx::import {
namespace {

DType wider(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::f64 || b == DType::f64) return DType::f64;
  return DType::f32;
}

// Scale and bias may be any shape that broadcasts to the input; the IR's operator takes those that end within
// the normalised axes.
bool fits_trailing(Lowering& l, ValueId x, ValueId weight, int64_t axis) {
  if (weight == ir::kNoValue) return true;
  const Extents from = l.shape(x);
  const Extents own = l.shape(weight);
  const size_t trailing = from.size() - static_cast<size_t>(axis);
  if (own.size() > trailing) return false;
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i] != 1 && own[i] != from[from.size() - own.size() + i]) return false;
  return true;
}

// A weight whose leading dimensions are 1 loses them, so that it ends within the normalised axes.
ValueId trimmed(Lowering& l, ValueId x, ValueId weight, int64_t axis) {
  if (weight == ir::kNoValue) return weight;
  Extents own = l.shape(weight);
  const size_t trailing = static_cast<size_t>(l.rank(x) - axis);
  while (own.size() > trailing && own.front() == 1) own.erase(own.begin());
  return l.reshape(weight, own);
}

struct Norm {
  ValueId x = ir::kNoValue;
  ValueId scale = ir::kNoValue;
  ValueId bias = ir::kNoValue;
  int64_t axis = 0;
  double epsilon = 0;
  DType result = DType::f32;      // of y
  DType statistics = DType::f32;  // of mean and inverse deviation
};

// Types of scale and bias that differ from the input's meet in the wider one.
void meet(Lowering& l, Norm& n) {
  DType common = l.dtype(n.x);
  for (ValueId weight : {n.scale, n.bias})
    if (weight != ir::kNoValue) common = wider(common, l.dtype(weight));
  n.x = l.cast(n.x, common);
  if (n.scale != ir::kNoValue) n.scale = trimmed(l, n.x, l.cast(n.scale, common), n.axis);
  if (n.bias != ir::kNoValue) n.bias = trimmed(l, n.x, l.cast(n.bias, common), n.axis);
}

void emit_layer_norm(Lowering& l, Norm n, int mean_output, int deviation_output) {
  meet(l, n);
  const bool inside = fits_trailing(l, n.x, n.scale, n.axis) && fits_trailing(l, n.x, n.bias, n.axis);
  const bool statistics = l.wants(mean_output) || l.wants(deviation_output);
  std::vector<ValueId> inputs{n.x};
  if (inside && (n.scale != ir::kNoValue || n.bias != ir::kNoValue)) inputs.push_back(n.scale);
  if (inside && n.bias != ir::kNoValue) inputs.push_back(n.bias);
  auto results = l.nodes_of(Op::layer_norm, inputs, statistics ? 3 : 1,
                            attrs({{"axis", n.axis}, {"epsilon", n.epsilon}}));
  ValueId y = results[0];
  if (!inside && n.scale != ir::kNoValue) y = l.binary(Op::mul, y, n.scale);
  if (!inside && n.bias != ir::kNoValue) y = l.binary(Op::add, y, n.bias);
  l.out(0, l.cast(y, n.result));
  if (l.wants(mean_output)) l.out(mean_output, l.cast(results[1], n.statistics));
  if (l.wants(deviation_output)) l.out(deviation_output, l.cast(results[2], n.statistics));
}

Extents axes_from(int64_t axis, int64_t rank) {
  Extents out;
  for (int64_t i = axis; i < rank; ++i) out.push_back(i);
  return out;
}

void emit_rms_norm(Lowering& l, Norm n, int deviation_output) {
  meet(l, n);
  const bool inside = fits_trailing(l, n.x, n.scale, n.axis);
  std::vector<ValueId> inputs{n.x};
  if (inside && n.scale != ir::kNoValue) inputs.push_back(n.scale);
  ValueId y = l.node_of(Op::rms_norm, inputs, attrs({{"axis", n.axis}, {"epsilon", n.epsilon}}));
  if (!inside) y = l.binary(Op::mul, y, n.scale);
  if (n.bias != ir::kNoValue) y = l.binary(Op::add, y, n.bias);
  l.out(0, l.cast(y, n.result));
  if (!l.wants(deviation_output)) return;
  const ValueId wide = l.cast(n.x, n.statistics);
  const ValueId square =
      l.reduce(Op::reduce_mean, l.binary(Op::mul, wide, wide), axes_from(n.axis, l.rank(n.x)), true);
  l.out(deviation_output,
        l.unary(Op::reciprocal,
                l.unary(Op::sqrt, l.binary(Op::add, square, l.scalar(n.statistics, n.epsilon)))));
}

DType stash_type(Lowering& l) {
  switch (l.integer("stash_type", 1)) {
    case 1:
      return DType::f32;
    case 10:
      return DType::f16;
    case 11:
      return DType::f64;
    case 16:
      return DType::bf16;
    default:
      unsupported("its stash_type is " + std::to_string(l.integer("stash_type", 1)));
  }
}

Norm norm_of(Lowering& l, double epsilon) {
  Norm n;
  n.x = l.in(0);
  n.scale = l.in_or_none(1);
  n.axis = l.axis(l.integer("axis", -1), l.rank(n.x));
  n.epsilon = l.real("epsilon", epsilon);
  n.result = l.dtype(n.x);
  n.statistics = stash_type(l);
  return n;
}

void layer_norm_operator(Lowering& l) {
  Norm n = norm_of(l, 1e-5F);
  n.bias = l.in_or_none(2);
  emit_layer_norm(l, n, 1, 2);
}

void rms_norm_operator(Lowering& l) { emit_rms_norm(l, norm_of(l, 1e-5F), 1); }

// Sits in the default domain though no ONNX version defines it; the result has the scale's type.
void simplified_layer_norm_operator(Lowering& l) {
  Norm n = norm_of(l, 1e-5F);
  if (n.scale != ir::kNoValue) n.result = l.dtype(n.scale);
  emit_rms_norm(l, n, 1);
}

// input + skip [+ bias], which is also output 3; skip may lack the batch or have a batch of one.
Norm skip_norm_of(Lowering& l, int bias_input) {
  ValueId sum = l.binary(Op::add, l.in(0), l.in(1));
  if (l.shape(sum) != l.shape(l.in(0)))
    fail("skip " + ir::text(l.shape(l.in(1))) + " does not fit the input " + ir::text(l.shape(l.in(0))));
  if (l.has(bias_input)) sum = l.binary(Op::add, sum, l.in(bias_input));
  l.out(3, sum);
  Norm n;
  n.x = sum;
  n.scale = l.in(2);
  n.axis = l.axis(-1, l.rank(sum));
  n.epsilon = l.real("epsilon", 1e-12F);
  n.result = l.dtype(sum);
  n.statistics = DType::f32;
  return n;
}

void skip_layer_norm_operator(Lowering& l) {
  Norm n = skip_norm_of(l, 4);
  n.bias = l.in_or_none(3);
  emit_layer_norm(l, n, 1, 2);
}

void skip_simplified_layer_norm_operator(Lowering& l) {
  if (l.wants(1)) unsupported("its mean output has no defined value");
  emit_rms_norm(l, skip_norm_of(l, 3), 2);
}

// [C] as [C, 1, 1, ..] to stand behind the batch of x.
ValueId per_channel(Lowering& l, ValueId x, ValueId weight) {
  Extents extents(static_cast<size_t>(l.rank(x) - 1), 1);
  extents[0] = product(l.shape(weight));
  return l.reshape(weight, extents);
}

ValueId standardised(Lowering& l, ValueId x, const Extents& axes, double epsilon) {
  const ValueId centred = l.binary(Op::sub, x, l.reduce(Op::reduce_mean, x, axes, true));
  const ValueId variance = l.reduce(Op::reduce_mean, l.binary(Op::mul, centred, centred), axes, true);
  return l.binary(Op::div, centred,
                  l.unary(Op::sqrt, l.binary(Op::add, variance, l.scalar_like(x, epsilon))));
}

void instance_norm_operator(Lowering& l) {
  const ValueId x = l.in(0);
  if (l.rank(x) < 3)
    fail("the input has shape " + ir::text(l.shape(x)) + ", expected at least three dimensions");
  const ValueId y = standardised(l, x, axes_from(2, l.rank(x)), l.real("epsilon", 1e-5F));
  l.out(0, l.binary(Op::add, l.binary(Op::mul, y, per_channel(l, x, l.in(1))), per_channel(l, x, l.in(2))));
}

void batch_norm_operator(Lowering& l) {
  const ValueId x = l.in(0);
  if (l.integer("training_mode", 0) != 0) unsupported("it is in training mode");
  for (int i = 1; i < l.output_count(); ++i)
    if (l.wants(i)) unsupported("its running statistics are asked for");
  if (l.rank(x) < 2)
    fail("the input has shape " + ir::text(l.shape(x)) + ", expected a batch and channels first");
  if (l.version() < 9 && l.integer("spatial", 1) == 0) unsupported("it has spatial = 0");
  const DType common = wider(l.dtype(x), wider(l.dtype(l.in(1)), l.dtype(l.in(3))));
  const auto weight = [&](int i) { return per_channel(l, x, l.cast(l.in(i), common)); };
  const ValueId deviation =
      l.unary(Op::sqrt, l.binary(Op::add, weight(4), l.scalar(common, l.real("epsilon", 1e-5F))));
  const ValueId factor = l.binary(Op::div, weight(1), deviation);
  const ValueId centred = l.binary(Op::sub, l.cast(x, common), weight(3));
  l.out(0, l.cast(l.binary(Op::add, l.binary(Op::mul, centred, factor), weight(2)), l.dtype(x)));
}

void mean_variance_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const auto given = l.integers("axes");
  // The default {0, 2, 3} means all but the channels, also where there are fewer dimensions.
  Extents axes{0};
  for (int64_t i = 2; i < std::min<int64_t>(l.rank(x), 4); ++i) axes.push_back(i);
  axes = l.axes(given ? *given : axes, l.rank(x));
  const ValueId centred = l.binary(Op::sub, x, l.reduce(Op::reduce_mean, x, axes, true));
  const ValueId variance = l.reduce(Op::reduce_mean, l.binary(Op::mul, centred, centred), axes, true);
  const ValueId deviation = l.binary(Op::add, l.unary(Op::sqrt, variance), l.scalar_like(x, 1e-9));
  l.out(0, l.binary(Op::div, centred, deviation));
}

// Groups of channels are rows; scale and bias are per channel from version 21 on, per group before.
void group_norm_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const Extents n = l.shape(x);
  const int64_t groups = l.required_integer("num_groups");
  if (n.size() < 2 || groups <= 0 || n[1] % groups != 0)
    fail("num_groups " + std::to_string(groups) + " does not divide the channels of " + ir::text(n));
  const ValueId rows = l.reshape(x, {n[0], groups, n[1] / groups * product(n, 2)});
  const ValueId y = standardised(l, rows, {2}, l.real("epsilon", 1e-5F));
  if (l.version() < 21) {
    const ValueId scaled = l.binary(Op::add, l.binary(Op::mul, y, l.reshape(l.in(1), {groups, 1})),
                                    l.reshape(l.in(2), {groups, 1}));
    return l.out(0, l.reshape(scaled, n));
  }
  const ValueId whole = l.reshape(y, n);
  l.out(0,
        l.binary(Op::add, l.binary(Op::mul, whole, per_channel(l, x, l.in(1))), per_channel(l, x, l.in(2))));
}

void lp_norm_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const Extents axes{l.axis(l.integer("axis", -1), l.rank(x))};
  const int64_t p = l.integer("p", 2);
  if (p != 1 && p != 2) fail("p is " + std::to_string(p) + ", expected 1 or 2");
  const ValueId norm = p == 1
                           ? l.reduce(Op::reduce_sum, l.unary(Op::abs, x), axes, true)
                           : l.unary(Op::sqrt, l.reduce(Op::reduce_sum, l.binary(Op::mul, x, x), axes, true));
  const ValueId zero = l.scalar_like(x, 0);
  const ValueId empty = l.binary(Op::equal, norm, zero);
  l.out(0, l.where(empty, zero, l.binary(Op::div, x, l.where(empty, l.scalar_like(x, 1), norm))));
}

}  // namespace

OperatorRows norm_operators() {
  return {
      {"LayerNormalization", layer_norm_operator},
      {"RMSNormalization", rms_norm_operator},
      {"SimplifiedLayerNormalization", simplified_layer_norm_operator},
      {"com.microsoft::SimplifiedLayerNormalization", simplified_layer_norm_operator},
      {"com.microsoft::SkipLayerNormalization", skip_layer_norm_operator},
      {"com.microsoft::SkipSimplifiedLayerNormalization", skip_simplified_layer_norm_operator},
      {"InstanceNormalization", instance_norm_operator},
      {"BatchNormalization", batch_norm_operator},
      {"MeanVarianceNormalization", mean_variance_operator},
      {"GroupNormalization", group_norm_operator},
      {"LpNormalization", lp_norm_operator},
  };
}

}  // namespace rtx::import

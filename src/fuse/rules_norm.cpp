// LayerNorm and RMSNorm written out. Three small steps, each a rule: the core, then its scale, then its bias.
//
//   d = x - mean(x);  v = mean(d d)  or  mean(x x) - mean(x)^2;  y = d / sqrt(v + epsilon) layer_norm y = x /
//   sqrt(mean(x x) + epsilon)                                                                rms_norm
//
// Division may be a product with the reciprocal or with pow(., -1/2), means may be sums over a constant, and
// exact casts may stand anywhere inside: the composite computes in the widest type of the chain.
#include <algorithm>
#include <cmath>

#include "fuse/match.h"

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

struct Mean {
  ValueId of;
  int64_t axis;  // the first of the trailing axes
};

// A mean over trailing axes that keeps their dimensions.
std::optional<Mean> take_mean(Match& match, ValueId value) {
  return match.attempt([&]() -> std::optional<Mean> {
    const ir::Node* reduce = match.take(value, Op::reduce_mean);
    double divisor = 0;
    if (!reduce) {
      for (Op op : {Op::div, Op::mul}) {
        const ir::Node* scaled = match.peek(value, op);
        if (!scaled) continue;
        for (size_t side = op == Op::div ? 1 : 0; side < 2 && !reduce; ++side) {
          auto number = scalar_for(match.editor, scaled->inputs[side], scaled->inputs[1 - side]);
          if (!number || !match.peek(scaled->inputs[1 - side], Op::reduce_sum)) continue;
          match.take(value, op);
          reduce = match.take(scaled->inputs[1 - side], Op::reduce_sum);
          divisor = op == Op::div ? *number : 1 / *number;
        }
        if (reduce) break;
      }
    }
    if (!reduce || reduce->attributes.integer("keepdims") != 1) return std::nullopt;
    const auto axes = reduce->attributes.integers("axes");
    const auto extents = match.editor.extents(reduce->inputs[0]);
    if (axes.empty() || axes.back() != static_cast<int64_t>(extents.size()) - 1) return std::nullopt;
    double count = 1;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] != axes[0] + static_cast<int64_t>(i)) return std::nullopt;
      count *= static_cast<double>(extents[static_cast<size_t>(axes[i])]);
    }
    if (reduce->op == Op::reduce_sum && !near(divisor, count, match.editor.value(value).dtype))
      return std::nullopt;
    return Mean{reduce->inputs[0], axes[0]};
  });
}

// x of x * x.
std::optional<ValueId> take_square(Match& match, ValueId value) {
  const ir::Node* product = match.peek(value, Op::mul);
  if (!product || product->inputs[0] != product->inputs[1]) return std::nullopt;
  match.take(value, Op::mul);
  return product->inputs[0];
}

// The value that two operands are, up to exact casts in front of either; the narrower one.
std::optional<ValueId> same_source(Match& match, ValueId a, ValueId b) {
  if (a == b) return a;
  return match.attempt([&]() -> std::optional<ValueId> {
    const ValueId from_a = match.through_widening(a), from_b = match.through_widening(b);
    if (from_a != from_b) return std::nullopt;
    return from_a;
  });
}

struct Core {
  ValueId x = ir::kNoValue;
  ValueId mean = ir::kNoValue;     // layer_norm only
  ValueId inverse = ir::kNoValue;  // 1 / sqrt(v + epsilon), where the chain has it as a value
  int64_t axis = 0;
  double epsilon = 0;
};

struct Quotient {
  ValueId numerator, variance, root = ir::kNoValue, inverse = ir::kNoValue;
  double epsilon;
};

// v and epsilon of v + epsilon.
bool take_shifted(Match& match, ValueId value, Quotient* out) {
  auto variance = match.take_with_constant(value, Op::add, [&](double number) {
    out->epsilon = number;
    return std::isfinite(number) && number >= 0;
  });
  if (!variance) return false;
  out->variance = *variance;
  return true;
}

bool take_inverse_root(Match& match, ValueId value, Quotient* out) {
  out->inverse = value;
  auto is_minus_half = [&](ValueId power, ValueId base) {
    auto number = scalar_for(match.editor, power, base);
    return number && *number == -0.5;
  };
  if (const ir::Node* power = match.peek(value, Op::pow);
      power && is_minus_half(power->inputs[1], power->inputs[0])) {
    match.take(value, Op::pow);
    return take_shifted(match, power->inputs[0], out);
  }
  const ir::Node* reciprocal = match.take(value, Op::reciprocal);
  ValueId below = ir::kNoValue;
  if (reciprocal)
    below = reciprocal->inputs[0];
  else if (const ir::Node* quotient = match.peek(value, Op::div);
           quotient && scalar_for(match.editor, quotient->inputs[0], quotient->inputs[1]) == 1.0) {
    match.take(value, Op::div);
    below = quotient->inputs[1];
  }
  const ir::Node* root = below == ir::kNoValue ? nullptr : match.take(below, Op::sqrt);
  return root && take_shifted(match, root->inputs[0], out);
}

std::optional<Quotient> take_quotient(Match& match, ValueId value) {
  return match.attempt([&]() -> std::optional<Quotient> {
    Quotient out{};
    if (const ir::Node* quotient = match.take(value, Op::div)) {
      out.numerator = quotient->inputs[0];
      out.root = quotient->inputs[1];
      const ir::Node* root = match.take(quotient->inputs[1], Op::sqrt);
      if (!root || !take_shifted(match, root->inputs[0], &out)) return std::nullopt;
      return out;
    }
    const ir::Node* product = match.take(value, Op::mul);
    if (!product) return std::nullopt;
    const size_t before = match.covers.size();
    for (size_t side = 0; side < 2; ++side) {
      out.numerator = product->inputs[side];
      if (take_inverse_root(match, product->inputs[1 - side], &out)) return out;
      match.covers.resize(before);
    }
    return std::nullopt;
  });
}

std::optional<Core> layer_core(Match& match, const Quotient& quotient) {
  return match.attempt([&]() -> std::optional<Core> {
    Core core;
    core.epsilon = quotient.epsilon;
    core.inverse = quotient.inverse;
    ValueId deviation = quotient.numerator;
    if (const ir::Node* variance = match.take(quotient.variance, Op::sub)) {  // mean(x x) - mean(x)^2
      auto of_square = take_mean(match, variance->inputs[0]);
      auto mean = take_square(match, variance->inputs[1]);
      auto square = of_square ? take_square(match, of_square->of) : std::nullopt;
      auto of_x = mean ? take_mean(match, *mean) : std::nullopt;
      if (!square || !of_x || *square != of_x->of || of_square->axis != of_x->axis) return std::nullopt;
      const ir::Node* difference = match.take(match.through_widening(deviation), Op::sub);
      if (!difference || difference->inputs[0] != of_x->of || difference->inputs[1] != *mean)
        return std::nullopt;
      core.x = of_x->of, core.mean = *mean, core.axis = of_x->axis;
      return core;
    }
    auto of_square = take_mean(match, quotient.variance);
    auto square = of_square ? take_square(match, of_square->of) : std::nullopt;
    auto source = square ? same_source(match, deviation, *square) : std::nullopt;
    const ir::Node* difference = source ? match.take(match.through_widening(*source), Op::sub) : nullptr;
    auto mean = difference ? take_mean(match, difference->inputs[1]) : std::nullopt;
    if (!mean || mean->axis != of_square->axis || mean->of != difference->inputs[0]) return std::nullopt;
    core.x = mean->of, core.mean = difference->inputs[1], core.axis = mean->axis;
    return core;
  });
}

std::optional<Core> rms_core(Match& match, const Quotient& quotient) {
  return match.attempt([&]() -> std::optional<Core> {
    auto of_square = take_mean(match, quotient.variance);
    auto square = of_square ? take_square(match, of_square->of) : std::nullopt;
    auto source = square ? same_source(match, quotient.numerator, *square) : std::nullopt;
    if (!source) return std::nullopt;
    Core core;
    core.x = *source, core.axis = of_square->axis, core.epsilon = quotient.epsilon;
    return core;
  });
}

bool read_outside(const Match& match, ValueId value) {
  if (match.editor.is_output(value)) return true;
  for (NodeId reader : match.editor.readers(value))
    if (std::find(match.covers.begin(), match.covers.end(), reader) == match.covers.end()) return true;
  return false;
}

std::optional<Rewriting> layer_norm(const Editor& editor, NodeId root) {
  Match match(editor);
  const ValueId out = editor.node(root).outputs[0];
  auto quotient = take_quotient(match, out);
  auto core = quotient ? layer_core(match, *quotient) : std::nullopt;
  if (!core || !ir::is_floating(editor.value(out).dtype)) return std::nullopt;
  // Who divides by the root may want its reciprocal as a result.
  if (core->inverse == ir::kNoValue)
    for (NodeId reader : editor.readers(quotient->root)) {
      const ir::Node& node = editor.node(reader);
      const bool inverse =
          node.op == Op::reciprocal || (node.op == Op::div && node.inputs[1] == quotient->root &&
                                        scalar_for(editor, node.inputs[0], node.inputs[1]) == 1.0);
      if (!inverse) continue;
      match.covers.push_back(reader);
      core->inverse = node.outputs[0];
    }
  const bool statistics = read_outside(match, core->mean) ||
                          (core->inverse != ir::kNoValue && read_outside(match, core->inverse));
  Rewriting rewriting{match.covers, {out}, {}};
  if (statistics) {
    rewriting.replaces.push_back(core->mean);
    if (core->inverse != ir::kNoValue) rewriting.replaces.push_back(core->inverse);
  }
  const ir::DType dtype = editor.value(out).dtype;
  rewriting.build = [core = *core, statistics, dtype](Editor& e) -> std::optional<std::vector<ValueId>> {
    auto x = e.as_dtype(core.x, dtype);
    if (!x) return std::nullopt;
    auto results = e.add_all(Op::layer_norm, {*x}, statistics ? 3 : 1,
                             {{{"axis", core.axis}, {"epsilon", core.epsilon}}});
    if (results && statistics && core.inverse == ir::kNoValue) results->pop_back();
    return results;
  };
  return rewriting;
}

std::optional<Rewriting> rms_norm(const Editor& editor, NodeId root) {
  Match match(editor);
  const ValueId out = editor.node(root).outputs[0];
  auto quotient = take_quotient(match, out);
  auto core = quotient ? rms_core(match, *quotient) : std::nullopt;
  if (!core || !ir::is_floating(editor.value(out).dtype)) return std::nullopt;
  const ir::DType dtype = editor.value(out).dtype;
  return Rewriting{
      match.covers, {out}, [core = *core, dtype](Editor& e) -> std::optional<std::vector<ValueId>> {
        auto x = e.as_dtype(core.x, dtype);
        auto y =
            x ? e.add(Op::rms_norm, {*x}, {{{"axis", core.axis}, {"epsilon", core.epsilon}}}) : std::nullopt;
        if (!y) return std::nullopt;
        return std::vector<ValueId>{*y};
      }};
}

// A scale or bias: a constant or graph input, perhaps reshaped, with exactly the extents of the normalised
// axes. A residual of the same shape is neither.
bool is_parameter(const Editor& editor, ValueId value, const std::vector<int64_t>& normalized) {
  auto extents = editor.extents(value);
  while (!extents.empty() && extents.size() > normalized.size() && extents[0] == 1)
    extents.erase(extents.begin());
  if (extents.size() < normalized.size())
    extents.insert(extents.begin(), normalized.size() - extents.size(), 1);
  if (extents != normalized) return false;
  const Match match(editor);
  while (const ir::Node* reshape = match.peek(value, Op::reshape)) value = reshape->inputs[0];
  return editor.value(value).producer == ir::kNoNode;
}

// norm(x) * scale, norm(x [, scale]) + bias; a narrowing cast may stand between, where the parameter is a
// constant.
std::optional<Rewriting> parameter(const Editor& editor, NodeId root, Op norm_op, size_t place) {
  const ir::Node& combined = editor.node(root);
  for (size_t side = 0; side < 2; ++side) {
    Match match(editor);
    match.covers.push_back(root);
    ValueId y = combined.inputs[side];
    const ValueId operand = combined.inputs[1 - side];
    const bool cast = match.take(y, Op::cast) != nullptr;
    if (cast) y = editor.node(match.covers.back()).inputs[0];
    const ir::Node* norm = match.take(y, norm_op);
    if (!norm || (cast && (!widens(editor.value(combined.outputs[0]).dtype, editor.value(y).dtype) ||
                           !editor.value(operand).constant)))
      continue;
    bool free = true;  // nothing may stand at this place or behind it
    for (size_t i = place; i < norm->inputs.size(); ++i) free = free && norm->inputs[i] == ir::kNoValue;
    const auto extents = editor.extents(norm->inputs[0]);
    const std::vector<int64_t> normalized(extents.begin() + norm->attributes.integer("axis"), extents.end());
    if (!free || !is_parameter(editor, operand, normalized)) continue;
    Rewriting rewriting{match.covers, {combined.outputs[0]}, {}};
    rewriting.replaces.insert(rewriting.replaces.end(), norm->outputs.begin() + 1, norm->outputs.end());
    auto inputs = norm->inputs;
    inputs.resize(place, ir::kNoValue);
    const ir::Attributes attributes = norm->attributes;
    const ir::DType inner = editor.value(y).dtype, outer = editor.value(combined.outputs[0]).dtype;
    const int count = static_cast<int>(norm->outputs.size());
    rewriting.build = [=](Editor& e) mutable -> std::optional<std::vector<ValueId>> {
      auto typed = e.as_dtype(operand, inner);
      auto shaped = typed ? e.as_shape(*typed, normalized) : std::nullopt;
      if (!shaped) return std::nullopt;
      inputs.push_back(*shaped);
      auto results = e.add_all(norm_op, inputs, count, attributes);
      auto first = results ? e.as_dtype((*results)[0], outer) : std::nullopt;
      if (!first) return std::nullopt;
      (*results)[0] = *first;
      return results;
    };
    return rewriting;
  }
  return std::nullopt;
}

Rule parameter_rule(const char* name, Op root, Op norm, size_t place) {
  return {name, {root}, [norm, place](const Editor& e, NodeId n) { return parameter(e, n, norm, place); }};
}

}  // namespace

std::vector<Rule> norm_rules() {
  return {
      {"layer_norm: (x - mean) / sqrt(variance + epsilon)", {Op::div, Op::mul}, layer_norm},
      {"rms_norm: x / sqrt(mean(x x) + epsilon)", {Op::div, Op::mul}, rms_norm},
      parameter_rule("layer_norm: scale", Op::mul, Op::layer_norm, 1),
      parameter_rule("layer_norm: bias", Op::add, Op::layer_norm, 2),
      parameter_rule("rms_norm: scale", Op::mul, Op::rms_norm, 1),
  };
}

}  // namespace rtx::fuse

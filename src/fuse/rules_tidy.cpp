// Tidying: nodes that change nothing, chains of one kind. None of these rounds, and the sign of zero is kept:
// x + 0 stays.
#include <cmath>
#include <numeric>

#include "fuse/match.h"

namespace rtx::fuse {
namespace {

using ir::DType;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

std::optional<Rewriting> becomes(const Editor& editor, NodeId root, ValueId value) {
  const ValueId old = editor.node(root).outputs[0];
  if (!editor.can_replace(old, value)) return std::nullopt;
  return Rewriting{{root}, {old}, [value](Editor&) { return std::vector<ValueId>{value}; }};
}

template <class Build>
std::optional<Rewriting> rebuilt(const Editor& editor, NodeId root, Build build) {
  return Rewriting{
      {root}, {editor.node(root).outputs[0]}, [build](Editor& e) -> std::optional<std::vector<ValueId>> {
        std::optional<ValueId> fresh = build(e);
        if (!fresh) return std::nullopt;
        return std::vector<ValueId>{*fresh};
      }};
}

const ir::Node* produced_by(const Editor& editor, ValueId value, Op op) {
  return Match(editor).peek(value, op);
}

ir::Attributes permutation(std::vector<int64_t> perm) { return {{{"perm", std::move(perm)}}}; }

std::optional<Rewriting> changes_nothing(const Editor& editor, NodeId root) {
  const ir::Node& node = editor.node(root);
  const ValueId in = node.inputs[0], out = node.outputs[0];
  if (editor.value(in).dtype != editor.value(out).dtype ||
      !(editor.value(in).shape == editor.value(out).shape))
    return std::nullopt;
  if (node.op == Op::slice)
    for (int64_t step : node.attributes.integers("steps"))
      if (step != 1) return std::nullopt;  // a reversal has the same shape
  if (node.op == Op::concat && node.inputs.size() != 1) return std::nullopt;
  return becomes(editor, root, in);
}

std::optional<Rewriting> neutral_element(const Editor& editor, NodeId root) {
  const ir::Node& node = editor.node(root);
  const bool whole = ir::is_integer(editor.value(node.outputs[0]).dtype);
  auto neutral = [&](double c) {
    switch (node.op) {
      case Op::mul:
      case Op::div:
      case Op::pow:
        return c == 1;
      case Op::sub:
        return c == 0 && (whole || !std::signbit(c));
      case Op::add:
        return c == 0 && (whole || std::signbit(c));
      default:
        return false;
    }
  };
  const bool commutes = node.op == Op::mul || node.op == Op::add;
  for (int side = 1; side >= (commutes ? 0 : 1); --side) {
    const ValueId other = node.inputs[static_cast<size_t>(1 - side)];
    auto constant = scalar_for(editor, node.inputs[static_cast<size_t>(side)], other);
    if (constant && neutral(*constant)) return becomes(editor, root, other);
  }
  return std::nullopt;
}

std::optional<Rewriting> known_condition(const Editor& editor, NodeId root) {
  const ir::Node& node = editor.node(root);
  auto condition = uniform(editor, node.inputs[0]);
  if (!condition) return std::nullopt;
  return becomes(editor, root, node.inputs[*condition != 0 ? 1 : 2]);
}

std::optional<Rewriting> transpose_of_transpose(const Editor& editor, NodeId root) {
  const ir::Node& outer = editor.node(root);
  const ir::Node* inner = produced_by(editor, outer.inputs[0], Op::transpose);
  if (!inner) return std::nullopt;
  const auto first = inner->attributes.integers("perm"), second = outer.attributes.integers("perm");
  std::vector<int64_t> perm(second.size());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = first[static_cast<size_t>(second[i])];
  const ValueId x = inner->inputs[0];
  return rebuilt(editor, root, [=](Editor& e) { return e.add(Op::transpose, {x}, permutation(perm)); });
}

// A transpose of joined transposes moves into them, where it meets theirs: keys of a cache, joined as [.., D,
// S].
std::optional<Rewriting> transpose_of_concat(const Editor& editor, NodeId root) {
  Match match(editor);
  match.covers.push_back(root);
  const ir::Node& outer = editor.node(root);
  const ir::Node* concat = match.take(outer.inputs[0], Op::concat);
  if (!concat) return std::nullopt;
  for (ValueId input : concat->inputs)
    if (!match.peek(input, Op::transpose)) return std::nullopt;
  const auto perm = outer.attributes.integers("perm");
  int64_t axis = 0;
  while (perm[static_cast<size_t>(axis)] != concat->attributes.integer("axis")) ++axis;
  const std::vector<ValueId> inputs = concat->inputs;
  Rewriting rewriting = *rebuilt(editor, root, [=](Editor& e) -> std::optional<ValueId> {
    std::vector<ValueId> moved;
    for (ValueId input : inputs) {
      auto one = e.add(Op::transpose, {input}, permutation(perm));
      if (!one) return std::nullopt;
      moved.push_back(*one);
    }
    return e.add(Op::concat, moved, {{{"axis", axis}}});
  });
  rewriting.covers = match.covers;
  return rewriting;
}

// A transpose that keeps the order of all dimensions longer than 1 moves no byte.
std::optional<Rewriting> transpose_is_reshape(const Editor& editor, NodeId root) {
  const ir::Node& node = editor.node(root);
  const auto perm = node.attributes.integers("perm");
  const ValueId x = node.inputs[0], out = node.outputs[0];
  if (!editor.value(x).layout.dense()) return std::nullopt;
  const auto from = editor.extents(x);
  int64_t last = -1;
  bool identity = true;
  for (size_t i = 0; i < perm.size(); ++i) {
    identity = identity && perm[i] == static_cast<int64_t>(i);
    if (from[static_cast<size_t>(perm[i])] == 1) continue;
    if (perm[i] < last) return std::nullopt;
    last = perm[i];
  }
  if (identity) return becomes(editor, root, x);
  const auto to = editor.extents(out);
  return rebuilt(editor, root, [=](Editor& e) { return e.add_as(Op::reshape, {x}, e.value(x).dtype, to); });
}

std::optional<Rewriting> reshape_of_reshape(const Editor& editor, NodeId root) {
  const ir::Node& outer = editor.node(root);
  const ir::Node* inner = produced_by(editor, outer.inputs[0], Op::reshape);
  if (!inner) return std::nullopt;
  const ValueId x = inner->inputs[0];
  const auto to = editor.extents(outer.outputs[0]);
  return rebuilt(editor, root, [=](Editor& e) { return e.add_as(Op::reshape, {x}, e.value(x).dtype, to); });
}

// Does every value of `from` exist in `to`?
bool exact_cast(DType from, DType to) {
  if (from == to || from == DType::boolean) return true;
  if (to == DType::boolean) return false;
  const auto &a = ir::info(from), &b = ir::info(to);
  if (ir::is_floating(from)) return widens(from, to);
  const int digits = a.bits - (a.kind == ir::DTypeKind::signed_integer);
  if (ir::is_floating(to)) return digits <= b.mantissa_bits + 1;
  if (a.kind == ir::DTypeKind::signed_integer && b.kind == ir::DTypeKind::unsigned_integer) return false;
  return digits <= b.bits - (b.kind == ir::DTypeKind::signed_integer);
}

std::optional<Rewriting> cast_of_exact_cast(const Editor& editor, NodeId root) {
  const ir::Node& outer = editor.node(root);
  const ir::Node* inner = produced_by(editor, outer.inputs[0], Op::cast);
  if (!inner) return std::nullopt;
  const ValueId x = inner->inputs[0];
  if (!exact_cast(editor.value(x).dtype, editor.value(outer.inputs[0]).dtype)) return std::nullopt;
  const DType to = editor.value(outer.outputs[0]).dtype;
  return rebuilt(editor, root, [=](Editor& e) { return e.add_as(Op::cast, {x}, to, e.extents(x)); });
}

// pow(x, 2) and pow(x, 3) as products: the same numbers, without a pow in the kernel.
std::optional<Rewriting> small_power(const Editor& editor, NodeId root) {
  const ir::Node& node = editor.node(root);
  const ValueId x = node.inputs[0];
  auto power = scalar_for(editor, node.inputs[1], x);
  if (!power || (*power != 2 && *power != 3) || !ir::is_floating(editor.value(x).dtype)) return std::nullopt;
  const bool cube = *power == 3;
  return rebuilt(editor, root, [=](Editor& e) {
    auto square = e.add(Op::mul, {x, x});
    return cube && square ? e.add(Op::mul, {*square, x}) : square;
  });
}

// An operator with broadcasting of its own needs no expand in front.
std::optional<Rewriting> expand_before_broadcast(const Editor& editor, NodeId root) {
  const ir::Node& node = editor.node(root);
  auto inputs = node.inputs;
  bool found = false;
  for (ValueId& input : inputs)
    if (const ir::Node* expand = produced_by(editor, input, Op::expand)) {
      input = expand->inputs[0];
      found = true;
    }
  if (!found) return std::nullopt;
  // The result must keep its shape without them.
  std::vector<int64_t> shape;
  for (ValueId input : inputs) {
    const auto extents = editor.extents(input);
    if (shape.size() < extents.size()) shape.insert(shape.begin(), extents.size() - shape.size(), 1);
    for (size_t i = 0; i < extents.size(); ++i) {
      int64_t& own = shape[shape.size() - 1 - i];
      if (extents[extents.size() - 1 - i] != 1) own = extents[extents.size() - 1 - i];
    }
  }
  if (shape != editor.extents(node.outputs[0])) return std::nullopt;
  const Op op = node.op;
  const ir::Attributes attributes = node.attributes;
  return rebuilt(editor, root, [=](Editor& e) { return e.add(op, inputs, attributes); });
}

std::optional<Rewriting> slice_of_slice(const Editor& editor, NodeId root) {
  const ir::Node& outer = editor.node(root);
  const ir::Node* inner = produced_by(editor, outer.inputs[0], Op::slice);
  if (!inner) return std::nullopt;
  const auto first = inner->attributes.integers("starts"), stride = inner->attributes.integers("steps");
  auto starts = outer.attributes.integers("starts"), steps = outer.attributes.integers("steps");
  const auto to = editor.extents(outer.outputs[0]);
  for (size_t i = 0; i < starts.size(); ++i) {
    if (to[i] == 0) return std::nullopt;
    starts[i] = first[i] + starts[i] * stride[i];
    steps[i] *= stride[i];
  }
  const ValueId x = inner->inputs[0];
  return rebuilt(editor, root, [=](Editor& e) {
    return e.add_as(Op::slice, {x}, e.value(x).dtype, to, {{{"starts", starts}, {"steps", steps}}});
  });
}

// concat(concat(a, b), c) -> concat(a, b, c), and operands without elements left out.
std::optional<Rewriting> flat_concat(const Editor& editor, NodeId root) {
  const ir::Node& outer = editor.node(root);
  const int64_t axis = outer.attributes.integer("axis");
  Match match(editor);
  match.covers.push_back(root);
  std::vector<ValueId> inputs;
  for (ValueId input : outer.inputs) {
    const ir::Node* inner = match.peek(input, Op::concat);
    if (inner && inner->attributes.integer("axis") == axis && !editor.is_output(input) &&
        editor.readers(input).size() == 1) {
      match.take(input, Op::concat);
      inputs.insert(inputs.end(), inner->inputs.begin(), inner->inputs.end());
    } else if (editor.extents(input)[static_cast<size_t>(axis)] != 0) {
      inputs.push_back(input);
    }
  }
  if (inputs == outer.inputs || inputs.empty()) return std::nullopt;
  if (inputs.size() == 1) return becomes(editor, root, inputs[0]);
  Rewriting rewriting = *rebuilt(editor, root, [=](Editor& e) {
    return e.add(Op::concat, inputs, {{{"axis", axis}}});
  });
  rewriting.covers = match.covers;
  return rewriting;
}

}  // namespace

std::vector<Rule> tidy_rules() {
  const std::vector<Op> broadcasting{Op::add,           Op::sub,   Op::mul,  Op::div,         Op::pow,
                                     Op::mod,           Op::max,   Op::min,  Op::logical_and, Op::logical_or,
                                     Op::logical_xor,   Op::equal, Op::less, Op::less_equal,  Op::greater,
                                     Op::greater_equal, Op::where};
  return {
      {"tidy: no effect", {Op::reshape, Op::expand, Op::cast, Op::slice, Op::concat}, changes_nothing, true},
      {"tidy: x * 1, x / 1, x ^ 1, x - 0",
       {Op::mul, Op::div, Op::pow, Op::sub, Op::add},
       neutral_element,
       true},
      {"tidy: where of a known condition", {Op::where}, known_condition, true},
      {"tidy: transpose of a transpose", {Op::transpose}, transpose_of_transpose, true},
      {"tidy: transpose of joined transposes", {Op::transpose}, transpose_of_concat},
      {"tidy: transpose around dimensions of 1", {Op::transpose}, transpose_is_reshape, true},
      {"tidy: reshape of a reshape", {Op::reshape}, reshape_of_reshape, true},
      {"tidy: cast of an exact cast", {Op::cast}, cast_of_exact_cast, true},
      {"tidy: small power", {Op::pow}, small_power, true},
      {"tidy: slice of a slice", {Op::slice}, slice_of_slice, true},
      {"tidy: concat of a concat", {Op::concat}, flat_concat},
      {"tidy: expand before a broadcast", broadcasting, expand_before_broadcast, true},
  };
}

}  // namespace rtx::fuse

#include "ir/infer.h"

#include <algorithm>

#include "ir/infer_rules.h"

namespace rtx::ir {
namespace infer_rules {

Error refuse(const Inputs& in, std::string why) {
  std::string what(name(in.node.op));
  what += "(";
  for (size_t i = 0; i < in.values.size(); ++i) {
    if (i) what += ", ";
    what += in.values[i] ? std::string(name(in.values[i]->dtype)) + text(in.values[i]->shape) : "_";
  }
  Error error = user_error("operator " + what + ") is not well formed", std::move(why));
  if (!in.node.name.empty()) error.where.push_back("node " + in.node.name);
  return error;
}

Status axis_in_rank(const Inputs& in, int64_t axis, size_t rank) {
  if (axis >= 0 && axis < static_cast<int64_t>(rank)) return success();
  return refuse(in, "axis " + std::to_string(axis) + " is outside [0, " + std::to_string(static_cast<int64_t>(rank) - 1) + "]");
}

Status flag(const Inputs& in, std::string_view attribute) {
  const int64_t value = in.node.attributes.integer(attribute);
  if (value == 0 || value == 1) return success();
  return refuse(in, "attribute " + std::string(attribute) + " is " + std::to_string(value) + ", expected 0 or 1");
}

Status same_dtype(const Inputs& in, size_t a, size_t b) {
  if (in.dtype(a) == in.dtype(b)) return success();
  return refuse(in, "inputs " + std::to_string(a) + " and " + std::to_string(b) + " have different element types, " +
                        std::string(name(in.dtype(a))) + " and " + std::string(name(in.dtype(b))));
}

Status floating(const Inputs& in, size_t i) {
  if (is_floating(in.dtype(i))) return success();
  return refuse(in, "input " + std::to_string(i) + " is " + std::string(name(in.dtype(i))) + ", expected a floating type");
}

Status rank_at_least(const Inputs& in, size_t i, size_t rank) {
  if (in.shape(i).size() >= rank) return success();
  return refuse(in, "input " + std::to_string(i) + " has rank " + std::to_string(in.shape(i).size()) + ", expected at least " +
                        std::to_string(rank));
}

Result<Shape> broadcast_of(const Inputs& in, const Shape& a, const Shape& b) {
  auto shape = broadcast(a, b);
  if (!shape.ok()) return refuse(in, shape.error().why);
  return shape;
}

}  // namespace infer_rules

namespace {

using namespace infer_rules;

std::string_view kind_name(AttributeKind kind) {
  return kind == AttributeKind::integer ? "an integer" : kind == AttributeKind::real ? "a real number" : "a list of integers";
}

bool has_kind(const Attribute& attribute, AttributeKind kind) {
  if (kind == AttributeKind::integers) return std::holds_alternative<std::vector<int64_t>>(attribute);
  if (kind == AttributeKind::integer) return std::holds_alternative<int64_t>(attribute);
  return !std::holds_alternative<std::vector<int64_t>>(attribute);
}

Status check_attributes(const Inputs& in) {
  const auto rows = attributes_of(in.node.op);
  for (const auto& row : rows) {
    auto found = in.node.attributes.items.find(row.name);
    if (found == in.node.attributes.items.end()) {
      if (row.required) return refuse(in, "attribute " + std::string(row.name) + " is missing");
    } else if (!has_kind(found->second, row.kind)) {
      return refuse(in, "attribute " + std::string(row.name) + " must be " + std::string(kind_name(row.kind)));
    }
  }
  for (const auto& [attribute, unused] : in.node.attributes.items) {
    const bool known = std::any_of(rows.begin(), rows.end(), [&, &wanted = attribute](const AttributeInfo& row) { return row.name == wanted; });
    if (!known) return refuse(in, "the operator has no attribute " + attribute);
  }
  return success();
}

Status check_inputs(const Graph& graph, Inputs& in) {
  const OpInfo& row = info(in.node.op);
  const auto count = static_cast<int64_t>(in.node.inputs.size());
  for (ValueId id : in.node.inputs) {
    if (id != kNoValue && (id < 0 || static_cast<size_t>(id) >= graph.values.size())) {
      return refuse(in, "an input refers to value " + std::to_string(id) + ", which does not exist");
    }
  }
  for (ValueId id : in.node.inputs) in.values.push_back(id == kNoValue ? nullptr : &graph.value(id));
  if (count < row.min_inputs || (row.max_inputs >= 0 && count > row.max_inputs)) {
    std::string expected = std::to_string(row.min_inputs);
    if (row.max_inputs < 0) expected = "at least " + expected;
    if (row.max_inputs > row.min_inputs) expected += " to " + std::to_string(row.max_inputs);
    return refuse(in, "it has " + std::to_string(count) + " inputs, expected " + expected);
  }
  const int64_t needed = row.max_inputs < 0 ? count : row.min_inputs;
  for (int64_t i = 0; i < needed; ++i) {
    if (in.values[static_cast<size_t>(i)] == nullptr) return refuse(in, "input " + std::to_string(i) + " is missing");
  }
  return success();
}

Result<Types> dispatch(const Inputs& in, const Types& wanted) {
  switch (info(in.node.op).op_class) {
    case OpClass::pointwise: return infer_pointwise(in, wanted);
    case OpClass::movement: return in.node.op == Op::rotary ? infer_rotary(in) : infer_movement(in, wanted);
    case OpClass::reduction: return infer_reduction(in);
    case OpClass::scan: return infer_scan(in);
    case OpClass::normalization: return infer_normalization(in);
    case OpClass::contraction: return infer_matmul(in);
    case OpClass::attention: return infer_attention(in);
  }
  return refuse(in, "unknown operator");
}

}  // namespace

Result<std::vector<ValueType>> infer(const Graph& graph, const Node& node, const std::vector<ValueType>& wanted) {
  Inputs in{node, {}};
  RTX_CHECK(check_inputs(graph, in));
  RTX_CHECK(check_attributes(in));
  RTX_TRY(auto types, dispatch(in, wanted));
  for (const auto& type : types) {
    if (!is_bound(type.shape)) continue;
    auto count = checked_element_count(extents(type.shape));
    if (!count.ok()) return refuse(in, "result: " + count.error().what + (count.error().why.empty() ? "" : ", " + count.error().why));
  }
  return types;
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const bool in_a = i + a.size() >= rank;
    const bool in_b = i + b.size() >= rank;
    const Dim left = in_a ? a[i + a.size() - rank] : Dim(1);
    const Dim right = in_b ? b[i + b.size() - rank] : Dim(1);
    if (left == right || right == Dim(1)) {
      out[i] = left;
    } else if (left == Dim(1)) {
      out[i] = right;
    } else {
      return user_error("shapes do not broadcast",
                        "shapes " + text(a) + " and " + text(b) + " do not broadcast: " + left.text() + " against " + right.text());
    }
  }
  return out;
}

}  // namespace rtx::ir

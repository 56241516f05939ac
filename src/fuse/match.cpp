#include "fuse/match.h"

#include <algorithm>
#include <cmath>

namespace rtx::fuse {

using ir::DType;
using ir::Op;
using ir::ValueId;

const ir::Node* Match::peek(ValueId value, Op op) const {
  if (value == ir::kNoValue) return nullptr;
  const ir::NodeId producer = editor.value(value).producer;
  if (producer == ir::kNoNode) return nullptr;
  const ir::Node& node = editor.node(producer);
  return node.op == op && node.outputs[0] == value ? &node : nullptr;
}

const ir::Node* Match::take(ValueId value, Op op) {
  const ir::Node* node = peek(value, op);
  if (node) covers.push_back(editor.value(value).producer);
  return node;
}

std::optional<ValueId> Match::take_with_constant(ValueId value, Op op,
                                                 const std::function<bool(double)>& wanted) {
  const ir::Node* node = peek(value, op);
  if (!node) return std::nullopt;
  for (int side = 0; side < 2; ++side) {
    const ValueId constant = node->inputs[static_cast<size_t>(side)],
                  other = node->inputs[static_cast<size_t>(1 - side)];
    auto number = scalar_for(editor, constant, other);
    if (!number || !wanted(*number)) continue;
    covers.push_back(editor.value(value).producer);
    return other;
  }
  return std::nullopt;
}

ValueId Match::through_widening(ValueId value) {
  while (const ir::Node* cast = peek(value, Op::cast)) {
    const ValueId from = cast->inputs[0];
    if (!widens(editor.value(from).dtype, editor.value(value).dtype)) break;
    covers.push_back(editor.value(value).producer);
    value = from;
  }
  return value;
}

std::optional<double> uniform(const Editor& editor, ValueId value) {
  if (value == ir::kNoValue || !editor.value(value).constant) return std::nullopt;
  const ir::HostTensor& tensor = *editor.value(value).constant;
  if (tensor.count() == 0) return std::nullopt;
  const double first = tensor.get_double(0);
  for (int64_t i = 1; i < tensor.count(); ++i)
    if (tensor.get_double(i) != first) return std::nullopt;
  return first;
}

std::optional<double> scalar_for(const Editor& editor, ValueId value, ValueId operand) {
  auto number = uniform(editor, value);
  if (!number) return std::nullopt;
  const auto constant = editor.extents(value), shape = editor.extents(operand);
  if (constant.size() > shape.size()) return std::nullopt;
  for (size_t i = 0; i < constant.size(); ++i) {
    const int64_t own = constant[constant.size() - 1 - i];
    if (own != 1 && own != shape[shape.size() - 1 - i]) return std::nullopt;
  }
  return number;
}

bool near(double found, double wanted, DType dtype) {
  // A product of two rounded constants may be off by three half units.
  const double unit =
      dtype == DType::f64
          ? 1e-7
          : std::ldexp(1.0, -ir::info(dtype).mantissa_bits);  // f64 graphs carry f32 constants
  return std::abs(found - wanted) <= 2 * unit * std::abs(wanted);
}

bool widens(DType from, DType to) {
  if (!ir::is_floating(from) || !ir::is_floating(to)) return false;
  if (from == to) return true;
  return ir::info(to).bits > ir::info(from).bits;
}

}  // namespace rtx::fuse

#include <algorithm>

#include "kernels/loopnest/loopnest.h"
#include "kernels/nests.h"

namespace rtx::kernels::loopnest {

using ir::Op;
using ir::OpClass;

namespace {

bool takes(Op op) {
  const OpClass c = ir::info(op).op_class;
  return c == OpClass::reduction || c == OpClass::normalization || c == OpClass::contraction || c == OpClass::attention ||
         op == Op::rotary;
}

int64_t product(const std::vector<int64_t>& extents, size_t first, size_t last) {
  int64_t out = 1;
  for (size_t d = first; d < last; ++d) out *= extents[d];
  return out;
}

}  // namespace

fuse::Pattern Family::pattern() {
  fuse::Pattern out;
  out.name = "loopnest";
  out.anchor = [](const ir::Graph& graph, ir::NodeId node) { return takes(graph.node(node).op); };
  out.grows_down = false;
  out.grows_up = false;
  out.max_outputs = 3;
  out.accepts = accepts<Family>;
  return out;
}

Result<Problem> Family::problem(const ir::Graph& body) {
  if (body.nodes.size() != 1) return user_error("not one operator", "loopnest computes one operator at a time, not " + std::to_string(body.nodes.size()));
  const ir::Node& node = body.nodes[0];
  if (!takes(node.op)) return user_error("not an operator of loopnest", std::string(ir::name(node.op)) + " belongs to the pointwise and movement families");
  for (const ir::ValueId id : node.inputs)
    if (id != ir::kNoValue && body.is_constant(id) && body.value(id).constant->count() != 1)
      return user_error("not an operator on buffers", "constant " + body.value(id).name + " has more than one element");
  Problem out;
  out.name = plan_name(name(), body) + "_" + std::string(ir::name(node.op));
  out.body = body;
  const auto x = body.extents(node.inputs[0]), y = body.extents(node.outputs[0]);
  const auto total = static_cast<double>(ir::element_count(y));
  double terms = 1, each = 1;
  out.tolerance.tolerance_class = ToleranceClass::reduction;
  switch (node.op) {
    case Op::matmul:
      terms = static_cast<double>(x[x.size() - (node.attributes.integer("trans_a") != 0 ? 2 : 1)]);
      each = 2 * terms;
      out.rows = product(y, 0, y.size() - 1);
      break;
    case Op::softmax:
    case Op::log_softmax: {
      const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
      terms = static_cast<double>(x[axis]);
      each = 26;
      out.rows = x[axis] == 0 ? 0 : ir::element_count(y) / x[axis];
      break;
    }
    case Op::layer_norm:
    case Op::rms_norm: {
      const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
      terms = static_cast<double>(product(x, axis, x.size()));
      each = 6;
      out.rows = product(x, 0, axis);
      break;
    }
    case Op::rotary:
      each = 3;
      out.rows = product(y, 0, 3);
      out.tolerance.tolerance_class = ToleranceClass::elementwise;
      break;
    case Op::attention: {
      const auto keys = static_cast<double>(body.extents(node.inputs[1])[2]);
      terms = keys;
      each = 2 * keys * (1 + static_cast<double>(x[3]) / static_cast<double>(std::max<int64_t>(y[3], 1)));
      out.rows = product(y, 0, 3);
      out.tolerance.tolerance_class = ToleranceClass::attention;
      break;
    }
    default:
      for (const int64_t axis : node.attributes.integers("axes")) terms *= static_cast<double>(x[static_cast<size_t>(axis)]);
      each = terms;
      out.rows = ir::element_count(y);
      break;
  }
  if (ir::element_count(y) == 0 && node.outputs.size() == 1) out.rows = 0;
  out.tolerance.terms = std::max<int64_t>(1, static_cast<int64_t>(terms));
  out.work = work_of(body, total * each);
  return out;
}

}  // namespace rtx::kernels::loopnest

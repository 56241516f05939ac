#include "kernels/anchored.h"

#include <algorithm>
#include <fmt/core.h>

#include "base/assert.h"

namespace rtx::kernels {

using codegen::Index;
using ir::NodeId;
using ir::ValueId;

Result<NodeId> only_anchor(const ir::Graph& body, std::optional<ir::Op> op) {
  NodeId anchor = ir::kNoNode;
  for (NodeId n = 0; n < static_cast<NodeId>(body.nodes.size()); ++n) {
    if (codegen::lowers(body.node(n).op) && body.node(n).op != op) continue;
    if (anchor != ir::kNoNode) return user_error("the region has two anchors", body.describe(anchor) + " and " + body.describe(n));
    anchor = n;
  }
  if (anchor == ir::kNoNode) return user_error("the region has no anchor", "all of its operators are pointwise or movements");
  return anchor;
}

Opened open_at(const ir::Graph& body, NodeId removed) {
  Opened out;
  out.graph = body;
  ir::Graph& graph = out.graph;
  for (const ValueId id : body.node(removed).outputs) {
    graph.value(id).producer = ir::kNoNode;
    graph.inputs.push_back(id);
    out.results.push_back(id);
  }
  graph.nodes.erase(graph.nodes.begin() + removed);
  for (auto& value : graph.values)
    if (value.producer > removed) --value.producer;
  return out;
}

void replace_uses(ir::Graph& graph, ValueId from, ValueId to) {
  const NodeId maker = graph.value(to).producer;
  // `to` itself is made from `from`: the nodes between them keep what they read.
  const auto made_from = dependents_of(graph, from);
  std::vector<bool> makes(graph.nodes.size(), false);
  std::vector<NodeId> open = {maker};
  while (!open.empty()) {
    const NodeId n = open.back();
    open.pop_back();
    if (n == ir::kNoNode || makes[static_cast<size_t>(n)]) continue;
    makes[static_cast<size_t>(n)] = true;
    for (const ValueId id : graph.node(n).inputs)
      if (id != ir::kNoValue && made_from[static_cast<size_t>(id)]) open.push_back(graph.value(id).producer);
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (!makes[n])
      for (ValueId& id : graph.nodes[n].inputs)
        if (id == from) id = to;
  for (ValueId& id : graph.outputs)
    if (id == from) id = to;
}

std::vector<bool> dependents_of(const ir::Graph& graph, ValueId source) {
  std::vector<bool> depends(graph.values.size(), false);
  depends[static_cast<size_t>(source)] = true;
  // Steps that were appended behind the nodes that use them are out of order, hence the repetition.
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& node : graph.nodes) {
      const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](ValueId id) { return id != ir::kNoValue && depends[static_cast<size_t>(id)]; });
      if (!any) continue;
      for (const ValueId id : node.outputs) {
        changed = changed || !depends[static_cast<size_t>(id)];
        depends[static_cast<size_t>(id)] = true;
      }
    }
  }
  return depends;
}

Result<std::vector<Index>> related_coordinates(const ir::Graph& graph, ValueId value, ValueId output, const std::vector<Index>& coordinates) {
  if (value == output) return coordinates;
  if (dependents_of(graph, value)[static_cast<size_t>(output)]) return codegen::output_coordinates(graph, value, output, coordinates);
  const auto depends = dependents_of(graph, output);
  const Error refusal = user_error("the result " + graph.value(output).name + " cannot be stored on the way",
                                   "its elements do not stand one to one with those of " + graph.value(value).name);
  if (!depends[static_cast<size_t>(value)]) return refusal;
  // From the value back to the output, coordinates changing as lowering changes them.
  auto at = coordinates;
  for (ValueId v = value; v != output;) {
    const ir::Node& node = graph.node(graph.value(v).producer);
    ValueId next = ir::kNoValue;
    for (const ValueId id : node.inputs)
      if (id != ir::kNoValue && depends[static_cast<size_t>(id)]) next = id;
    RTX_ASSERT(next != ir::kNoValue, "a value that depends on another has an operand that does");
    const auto extents = graph.extents(v), before = graph.extents(next);
    if (ir::element_count(extents) != ir::element_count(before)) return refusal;
    if (node.op == ir::Op::reshape) {
      at = codegen::unravel(codegen::ravel(at, ir::row_major_strides(extents)), before);
    } else if (node.op == ir::Op::transpose) {
      const auto perm = node.attributes.integers("perm");
      auto inner = at;
      for (size_t d = 0; d < perm.size(); ++d) inner[static_cast<size_t>(perm[d])] = at[d];
      at = std::move(inner);
    } else if (ir::info(node.op).op_class == ir::OpClass::pointwise) {
      at.erase(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(extents.size() - before.size()));
    } else {
      return refusal;
    }
    v = next;
  }
  return at;
}

std::map<int, std::string> Arguments::bind(codegen::Source& source, const codegen::ElementDag& dag) {
  std::map<int, std::string> names;
  for (size_t k = 0; k < dag.buffers.size(); ++k) {
    const auto& buffer = dag.buffers[k];
    const backend::BufferRef ref{buffer.output ? backend::BufferKind::output : backend::BufferKind::input, buffer.position};
    const std::string name = (buffer.output ? "out" : "in") + std::to_string(buffer.position);
    names[static_cast<int>(k)] = name;
    if (std::find(list_.begin(), list_.end(), ref) != list_.end()) continue;
    const std::string type = (buffer.output ? "" : "const ") + codegen::type_text(buffer.dtype);
    source.line(fmt::format("{}* const {} = ARG({}, {});", type, name, type, list_.size()));
    list_.push_back(ref);
  }
  return names;
}

double bytes_read(const ir::Graph& body) {
  const auto readers = body.readers();
  double bytes = 0;
  for (const ValueId id : body.inputs) {
    int64_t elements = ir::element_count(body.extents(id));
    // A table that is only gathered from is read where its indices point: as many elements as come out.
    int64_t gathered = 0;
    bool only_gathered = true;
    for (const auto reader : readers[static_cast<size_t>(id)]) {
      const auto& node = body.node(reader);
      const bool data = (node.op == ir::Op::gather || node.op == ir::Op::gather_nd) && node.inputs[0] == id && node.inputs[1] != id;
      only_gathered = only_gathered && data;
      if (data) gathered += ir::element_count(body.extents(node.outputs[0]));
    }
    if (only_gathered && !readers[static_cast<size_t>(id)].empty()) elements = std::min(elements, gathered);
    bytes += static_cast<double>(elements * ir::bytes_of(body.value(id).dtype));
  }
  return bytes;
}

double bytes_written(const ir::Graph& body) {
  double bytes = 0;
  for (const ValueId id : body.outputs)
    bytes += static_cast<double>(ir::element_count(body.extents(id)) * ir::bytes_of(body.value(id).dtype));
  return bytes;
}

std::string work_text(double flops, double bytes) {
  const auto scaled = [](double x, const char* unit) {
    if (x >= 1e9) return fmt::format("{:.3g} G{}", x * 1e-9, unit);
    if (x >= 1e6) return fmt::format("{:.3g} M{}", x * 1e-6, unit);
    return fmt::format("{:.3g} k{}", x * 1e-3, unit);
  };
  return scaled(flops, "flop") + ", " + scaled(bytes, "B");
}

Status require_f32_arithmetic(const ir::Graph& body, ValueId value, std::string_view family) {
  const ir::DType dtype = body.value(value).dtype;
  if (ir::is_floating(dtype) && ir::compute_dtype(dtype) == ir::DType::f32) return success();
  return user_error(fmt::format("{} does not take {}", family, ir::name(dtype)), "it computes in f32, from f32, f16 or bf16");
}

}  // namespace rtx::kernels

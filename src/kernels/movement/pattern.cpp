#include <algorithm>

#include "codegen/lower.h"
#include "kernels/movement/movement.h"

namespace rtx::kernels::movement {

namespace {

using ir::Op;

Result<Scatter> scatter_of(const ir::Graph& body) {
  const ir::Node& node = body.nodes[0];
  if (body.nodes.size() != 1) return user_error("not a lone scatter_nd", "a scatter_nd is computed alone");
  Scatter out;
  out.present = true;
  const ir::ValueId data = node.inputs[0], indices = node.inputs[1], updates = node.inputs[2];
  for (const ir::ValueId v : {data, indices, updates, node.outputs[0]}) {
    if (!body.value(v).layout.dense()) return user_error("not a dense scatter_nd", body.value(v).name + " is a strided view");
    if (body.is_constant(v)) return user_error("not a scatter_nd of buffers", body.value(v).name + " is a constant");
  }
  const auto extents = body.extents(data), index_extents = body.extents(indices);
  const auto depth = static_cast<size_t>(index_extents.back());
  out.dtype = body.value(data).dtype;
  out.index_dtype = body.value(indices).dtype;
  out.elements = ir::element_count(extents);
  out.indexed.assign(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(depth));
  out.slice = ir::element_count({extents.begin() + static_cast<std::ptrdiff_t>(depth), extents.end()});
  out.updates = ir::element_count({index_extents.begin(), index_extents.end() - 1});
  out.reduction = node.attributes.integer("reduction");
  if (out.dtype == ir::DType::boolean && out.reduction != 0) return user_error("not a scatter_nd of numbers", "booleans are only replaced");
  return out;
}

// The region's one tensor_scatter, whose result nobody reads here; what else there is moves data on its way
// to `fresh`.
Result<const ir::Node*> lone_cache_write(const ir::Graph& body) {
  const ir::Node* out = nullptr;
  for (const auto& node : body.nodes) {
    if (node.op == Op::tensor_scatter && out)
      return user_error("not a lone tensor_scatter", "the region has two of them");
    if (node.op == Op::tensor_scatter)
      out = &node;
    else if (ir::info(node.op).op_class != ir::OpClass::movement || node.op == Op::rotary ||
             node.op == Op::scatter_nd)
      return user_error("not a lone tensor_scatter",
                        std::string(ir::name(node.op)) + " does not only move data");
  }
  if (body.outputs.size() != 1 || body.outputs[0] != out->outputs[0])
    return user_error("not a lone tensor_scatter", "what it writes goes on in the region");
  return out;
}

Result<CacheWrite> cache_write_of(const ir::Graph& body) {
  RTX_TRY(const ir::Node* const node, lone_cache_write(body));
  const ir::ValueId cache = node->inputs[0], fresh = node->inputs[1], start = node->inputs[2];
  const auto position = [&](ir::ValueId value) {
    return static_cast<int>(std::find(body.inputs.begin(), body.inputs.end(), value) - body.inputs.begin());
  };
  for (const ir::ValueId v : {cache, start, node->outputs[0]}) {
    if (!body.value(v).layout.dense()) return user_error("not a dense tensor_scatter", body.value(v).name + " is a strided view");
    if (body.is_constant(v)) return user_error("not a tensor_scatter of buffers", body.value(v).name + " is a constant");
    if (v != node->outputs[0] && body.value(v).producer != ir::kNoNode)
      return user_error("not a tensor_scatter of buffers", body.value(v).name + " is made in the region");
  }
  if (cache == fresh) return user_error("not a tensor_scatter of two tensors", "a cache is written into itself");
  const auto extents = body.extents(cache), fresh_extents = body.extents(fresh);
  const auto axis = static_cast<size_t>(node->attributes.integer("axis"));
  CacheWrite out;
  out.present = true;
  out.circular = node->attributes.integer("circular") != 0;
  out.batch = extents[0];
  out.outer = ir::element_count({extents.begin() + 1, extents.begin() + static_cast<std::ptrdiff_t>(axis)});
  out.room = extents[axis];
  out.rows = fresh_extents[axis];
  const std::vector<int64_t> between(extents.begin() + 1,
                                     extents.begin() + static_cast<std::ptrdiff_t>(axis)),
      behind(extents.begin() + static_cast<std::ptrdiff_t>(axis) + 1, extents.end());
  out.element_bytes = ir::bytes_of(body.value(cache).dtype);
  out.row_bytes = ir::element_count(behind) * out.element_bytes;
  out.cache_input = position(cache);
  out.start_input = position(start);
  out.dense = body.nodes.size() == 1 && body.value(fresh).layout.dense() && !body.is_constant(fresh);
  if (out.dense) {
    out.fresh_input = position(fresh);
    return out;
  }
  // Element (b, o, s, column) of fresh: at an even distance or not, but in one buffer and as it lies there.
  std::vector<codegen::Index> at = {codegen::Index::variable(0, out.batch)};
  for (const auto& one : codegen::unravel(codegen::Index::variable(1, out.outer), between)) at.push_back(one);
  at.push_back(codegen::Index::variable(2, out.rows));
  for (const auto& one : codegen::unravel(codegen::Index::variable(3, ir::element_count(behind)), behind))
    at.push_back(one);
  RTX_TRY(const auto lowered, codegen::lower_value(body, fresh, at));
  const auto& element = lowered.dag.elements[static_cast<size_t>(lowered.element)];
  if (lowered.dag.elements.size() != 1 || element.kind != codegen::Element::Kind::load)
    return user_error("not a tensor_scatter of a view", "its fresh rows are put together element by element");
  const auto& buffer = lowered.dag.buffers[static_cast<size_t>(element.buffer)];
  if (buffer.value == cache)
    return user_error("not a tensor_scatter of two tensors", "a cache is written into itself");
  if (body.is_constant(buffer.value))
    return user_error("not a tensor_scatter of buffers", body.value(buffer.value).name + " is a constant");
  out.fresh_input = position(buffer.value);
  out.fresh = element.offset;
  return out;
}

}  // namespace

fuse::Pattern Family::pattern() {
  fuse::Pattern out;
  out.name = "movement";
  out.anchor = [](const ir::Graph& graph, ir::NodeId node) { return ir::info(graph.node(node).op).op_class == ir::OpClass::movement; };
  out.grows_down = true;
  out.grows_up = true;
  out.max_outputs = 4;
  out.accepts = accepts<Family>;
  return out;
}

Result<Problem> Family::problem(const ir::Graph& body) {
  Problem out;
  out.name = plan_name(name(), body);
  out.moves_only = all_nodes(body, [](const ir::Node& n) { return ir::info(n.op).op_class == ir::OpClass::movement && n.op != ir::Op::rotary; });
  bool scatters = false, writes_cache = false;
  for (const auto& node : body.nodes) {
    scatters = scatters || node.op == ir::Op::scatter_nd;
    writes_cache = writes_cache || node.op == ir::Op::tensor_scatter;
    if (!codegen::lowers(node.op) && node.op != ir::Op::scatter_nd && node.op != ir::Op::tensor_scatter)
      return user_error("not a movement of data", std::string(ir::name(node.op)) + " is neither pointwise nor a movement of data");
  }
  double flops = 0;
  if (scatters) {
    RTX_TRY(out.scatter, scatter_of(body));
    out.moves_only = out.scatter.reduction == 0;
    out.scatter_text = "scatter " + std::string(ir::name(out.scatter.dtype)) + " " + std::string(ir::name(out.scatter.index_dtype)) + " of " +
                       std::to_string(out.scatter.elements) + " at " + ir::text(out.scatter.indexed) + " updates " +
                       std::to_string(out.scatter.updates) + " x " + std::to_string(out.scatter.slice) + " reduction " +
                       std::to_string(out.scatter.reduction);
  } else if (writes_cache) {
    RTX_TRY(out.cache_write, cache_write_of(body));
    const CacheWrite& w = out.cache_write;
    out.scatter_text = "cache " + std::to_string(w.batch) + " x " + std::to_string(w.outer) + " x " + std::to_string(w.room) + " rows " + std::to_string(w.rows) + " of " +
                       std::to_string(w.row_bytes) + " bytes" + (w.circular ? " circular" : "");
    if (!w.dense)
      out.scatter_text +=
          " from view " + w.fresh.text() + " of " + std::to_string(w.element_bytes) + " bytes";
  } else {
    RTX_TRY(out.program, lower_program(body));
    for (const auto& nest : out.program.nests) flops += static_cast<double>(nest.count() * nest.dag.flops());
  }
  out.work = work_of(body, flops);
  return out;
}

}  // namespace rtx::kernels::movement

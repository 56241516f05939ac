#include "fuse/editor.h"

#include <algorithm>

#include "base/assert.h"

namespace rtx::fuse {

using ir::NodeId;
using ir::ValueId;

Editor::Editor(ir::Graph graph)
    : graph_(std::move(graph)),
      readers_(graph_.readers()),
      output_uses_(graph_.values.size(), 0),
      alive_(graph_.nodes.size(), 1),
      named_outputs_(!graph_.output_names.empty()) {
  // Outputs keep their names whatever value they come to be.
  if (!named_outputs_)
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      graph_.output_names.push_back(graph_.value(graph_.outputs[i]).name);
  for (ValueId output : graph_.outputs) ++output_uses_[static_cast<size_t>(output)];
}

void Editor::grown(NodeId node) {
  readers_.resize(graph_.values.size());
  output_uses_.resize(graph_.values.size(), 0);
  alive_.resize(graph_.nodes.size(), 1);
  for (ValueId input : graph_.node(node).inputs)
    if (input != ir::kNoValue) readers_[static_cast<size_t>(input)].push_back(node);
}

std::optional<ValueId> Editor::add(ir::Op op, std::vector<ValueId> inputs, ir::Attributes attributes) {
  auto added = graph_.try_add_node(op, std::move(inputs), std::move(attributes), origin_);
  if (!added.ok()) return std::nullopt;
  grown(static_cast<NodeId>(graph_.nodes.size()) - 1);
  return *added;
}

std::optional<std::vector<ValueId>> Editor::add_all(ir::Op op, std::vector<ValueId> inputs, int outputs,
                                                    ir::Attributes attributes) {
  auto added = graph_.try_add_nodes(op, std::move(inputs), outputs, std::move(attributes), origin_);
  if (!added.ok()) return std::nullopt;
  grown(static_cast<NodeId>(graph_.nodes.size()) - 1);
  return *added;
}

std::optional<ValueId> Editor::add_as(ir::Op op, std::vector<ValueId> inputs, ir::DType dtype,
                                      const std::vector<int64_t>& extents, ir::Attributes attributes) {
  auto added = graph_.try_add_node_as(op, std::move(inputs), dtype, ir::to_shape(extents),
                                      std::move(attributes), origin_);
  if (!added.ok()) return std::nullopt;
  grown(static_cast<NodeId>(graph_.nodes.size()) - 1);
  return *added;
}

ValueId Editor::add_constant(ir::HostTensor tensor) {
  const ValueId id =
      graph_.add_constant(graph_.fresh_name(origin_.empty() ? "constant" : origin_), std::move(tensor));
  readers_.resize(graph_.values.size());
  output_uses_.resize(graph_.values.size(), 0);
  return id;
}

std::optional<ValueId> Editor::as_dtype(ValueId id, ir::DType dtype) {
  if (value(id).dtype == dtype) return id;
  if (value(id).constant) {
    const ir::HostTensor& from = *value(id).constant;
    ir::HostTensor to(dtype, from.extents());
    for (int64_t i = 0; i < from.count(); ++i) to.set_double(i, from.get_double(i));
    return add_constant(std::move(to));
  }
  return add_as(ir::Op::cast, {id}, dtype, extents(id));
}

std::optional<ValueId> Editor::as_shape(ValueId id, const std::vector<int64_t>& wanted) {
  if (extents(id) == wanted) return id;
  if (value(id).constant) return add_constant(value(id).constant->reshaped(wanted));
  return add_as(ir::Op::reshape, {id}, value(id).dtype, wanted);
}

bool Editor::can_replace(ValueId old, ValueId fresh) const {
  const ir::Value& a = value(old);
  const ir::Value& b = value(fresh);
  if (a.dtype != b.dtype || !(a.shape == b.shape)) return false;
  if (!is_output(old)) return true;
  if (b.producer == ir::kNoNode && !b.layout.dense())
    return false;  // copying a strided view is a kernel's work
  const bool takes_over = b.producer != ir::kNoNode && b.layout.dense() && !is_output(fresh);
  if (!a.layout.dense() && !takes_over) return false;
  for (const ir::State& state : graph_.states)
    if (state.output == old && !takes_over) return false;
  return true;
}

void Editor::replace(ValueId old, ValueId fresh) {
  RTX_ASSERT(can_replace(old, fresh), "a rule replaces a value by one of another type");
  if (old == fresh) return;
  std::vector<NodeId> moved = std::move(readers_[static_cast<size_t>(old)]);
  readers_[static_cast<size_t>(old)].clear();
  for (NodeId reader : moved)
    for (ValueId& input : graph_.node(reader).inputs)
      if (input == old) input = fresh;
  auto& readers = readers_[static_cast<size_t>(fresh)];
  readers.insert(readers.end(), moved.begin(), moved.end());
  if (is_output(old)) {
    for (ValueId& output : graph_.outputs)
      if (output == old) output = fresh;
    for (ir::State& state : graph_.states)
      if (state.output == old) state.output = fresh;
    if (!value(old).layout.dense()) std::swap(graph_.value(fresh).layout, graph_.value(old).layout);
    // The graph's text goes on to say `return y`.
    if (value(fresh).producer != ir::kNoNode && !is_output(fresh))
      std::swap(graph_.value(fresh).name, graph_.value(old).name);
    output_uses_[static_cast<size_t>(fresh)] += output_uses_[static_cast<size_t>(old)];
    output_uses_[static_cast<size_t>(old)] = 0;
  }
  release(old);
}

// Kills the producer of a value that nobody needs, and what only it needed.
void Editor::release(ValueId id) {
  std::vector<ValueId> work{id};
  while (!work.empty()) {
    const NodeId producer = value(work.back()).producer;
    work.pop_back();
    if (producer == ir::kNoNode || !alive(producer)) continue;
    bool needed = false;
    for (ValueId output : node(producer).outputs)
      needed = needed || !readers(output).empty() || is_output(output);
    if (needed) continue;
    alive_[static_cast<size_t>(producer)] = 0;
    for (ValueId input : node(producer).inputs) {
      if (input == ir::kNoValue) continue;
      auto& list = readers_[static_cast<size_t>(input)];
      list.erase(std::remove(list.begin(), list.end(), producer), list.end());
      work.push_back(input);
    }
  }
}

void Editor::bury(NodeId from) {
  for (NodeId id = static_cast<NodeId>(graph_.nodes.size()); id-- > from;)
    if (alive(id)) release(node(id).outputs[0]);
}

ir::Graph Editor::take() && {
  auto ordered = ir::sorted(std::move(graph_));
  RTX_ASSERT(ordered.ok(), "a rewrite made a cycle");
  ir::Graph out = ir::without_dead_code(*ordered);
  bool same = true;
  for (size_t i = 0; i < out.outputs.size(); ++i)
    same = same && out.value(out.outputs[i]).name == out.output_names[i];
  if (!named_outputs_ && same) out.output_names.clear();
  return out;
}

}  // namespace rtx::fuse

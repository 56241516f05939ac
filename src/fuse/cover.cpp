#include "fuse/cover.h"

#include <algorithm>

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::ValueId;

// Readers of a value and of everything that is only another name for its bytes.
void collect_state_readers(const ir::Graph& graph, const std::vector<std::vector<NodeId>>& readers,
                           ValueId value, std::vector<NodeId>& out) {
  for (NodeId reader : readers[static_cast<size_t>(value)]) {
    out.push_back(reader);
    if (graph.node(reader).op == ir::Op::reshape)
      collect_state_readers(graph, readers, graph.node(reader).outputs[0], out);
  }
}

bool reaches(const std::vector<std::vector<NodeId>>& successors, NodeId from, NodeId to) {
  std::vector<char> seen(successors.size(), 0);
  std::vector<NodeId> work{from};
  while (!work.empty()) {
    NodeId node = work.back();
    work.pop_back();
    if (node == to) return true;
    if (seen[static_cast<size_t>(node)]++) continue;
    for (NodeId next : successors[static_cast<size_t>(node)]) work.push_back(next);
  }
  return false;
}

}  // namespace

Cover::Cover(const ir::Graph& graph)
    : graph_(graph),
      readers_(graph.readers()),
      successors_(graph.nodes.size()),
      is_output_(graph.values.size(), 0),
      owner_(graph.nodes.size(), -1),
      mark_(graph.nodes.size(), 0) {
  for (ValueId output : graph.outputs) is_output_[static_cast<size_t>(output)] = 1;
  for (auto& readers : readers_) readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (ValueId value : graph.nodes[i].outputs)
      for (NodeId reader : readers_[static_cast<size_t>(value)]) successors_[i].push_back(reader);
  for (const ir::State& state : graph.states) {
    const NodeId writer = graph.value(state.output).producer;
    if (writer == ir::kNoNode) continue;
    std::vector<NodeId> state_readers;
    collect_state_readers(graph, readers_, state.input, state_readers);
    for (NodeId reader : state_readers) {
      if (reader == writer || reaches(successors_, writer, reader)) continue;
      successors_[static_cast<size_t>(reader)].push_back(writer);
      if (reader > writer) ordered_ = false;
    }
  }
  for (auto& list : successors_) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
}

bool Cover::absorbable(NodeId node) const {
  if (claimed(node)) return false;
  const ir::OpClass op_class = ir::info(graph_.node(node).op).op_class;
  return op_class == ir::OpClass::pointwise || op_class == ir::OpClass::movement;
}

bool Cover::cannot_reach(NodeId node, NodeId last) const {
  if (!ordered_) return false;
  const int region = owner(node);
  const NodeId first = region < 0 ? node : groups_[static_cast<size_t>(region)].front();
  return first > last;
}

bool Cover::path_around(const std::vector<NodeId>& nodes) const {
  const int inside = ++stamp_;
  const int seen = ++stamp_;
  for (NodeId node : nodes) mark_[static_cast<size_t>(node)] = inside;
  const NodeId last = nodes.back();
  std::vector<NodeId> work;
  auto visit = [&](NodeId node) {
    int& mark = mark_[static_cast<size_t>(node)];
    if (mark == inside || mark == seen || cannot_reach(node, last)) return;
    mark = seen;
    work.push_back(node);
  };
  for (NodeId node : nodes)
    for (NodeId next : successors(node)) visit(next);
  while (!work.empty()) {
    const NodeId node = work.back();
    work.pop_back();
    for (NodeId next : successors(node)) {
      if (mark_[static_cast<size_t>(next)] == inside) return true;
      visit(next);
    }
    if (const int region = owner(node); region >= 0)
      for (NodeId member : groups_[static_cast<size_t>(region)]) visit(member);
  }
  return false;
}

std::vector<ValueId> Cover::outputs(const std::vector<NodeId>& nodes) const {
  std::vector<ValueId> out;
  for (NodeId node : nodes)
    for (ValueId value : graph_.node(node).outputs) {
      bool needed = is_output(value);
      for (NodeId reader : readers(value))
        needed = needed || !std::binary_search(nodes.begin(), nodes.end(), reader);
      if (needed) out.push_back(value);
    }
  if (out.empty())
    out.push_back(graph_.node(nodes.back()).outputs[0]);  // nobody reads it; it runs all the same
  return out;
}

int Cover::claim(const std::vector<NodeId>& nodes) {
  const int region = static_cast<int>(groups_.size());
  for (NodeId node : nodes) owner_[static_cast<size_t>(node)] = region;
  groups_.push_back(nodes);
  return region;
}

}  // namespace rtx::fuse

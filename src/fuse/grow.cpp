#include "fuse/grow.h"

#include <algorithm>

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

// A step that has to go on through surplus results gives up after this many nodes: x * sigmoid(x) needs 2, a
// gelu written out in a spelling that recognise() does not know about 8.
constexpr size_t kLongestStep = 16;
// A neighbour that the family refused is asked again once the region has changed, this often.
constexpr int kTriesPerNeighbour = 3;
// How far behind a contraction its epilogue is looked for.
constexpr int kLongestEpilogue = 8;
// From this growth on, a result is cheaper computed once and read back than computed again for each element
// that uses it.
constexpr int64_t kCostlyBroadcast = 4;

void insert_sorted(std::vector<NodeId>& nodes, NodeId node) {
  nodes.insert(std::lower_bound(nodes.begin(), nodes.end(), node), node);
}
bool contains(const std::vector<NodeId>& nodes, NodeId node) {
  return std::binary_search(nodes.begin(), nodes.end(), node);
}

bool costly(Op op) {
  switch (op) {
    case Op::exp:
    case Op::log:
    case Op::erf:
    case Op::tanh:
    case Op::sigmoid:
    case Op::gelu:
    case Op::silu:
    case Op::sqrt:
    case Op::reciprocal:
    case Op::div:
    case Op::pow:
    case Op::mod:
      return true;
    default:
      return false;
  }
}

int64_t elements(const ir::Graph& graph, ValueId value) { return ir::element_count(graph.extents(value)); }

}  // namespace

Growth::Growth(const Cover& cover, const Pattern& pattern, NodeId anchor)
    : cover_(cover), pattern_(pattern), anchor_(anchor), nodes_{anchor} {}

bool Growth::accepted(const std::vector<NodeId>& nodes, std::string* reason) const {
  const ir::Graph body = ir::extract(cover_.graph(), nodes, cover_.outputs(nodes));
  Status status = pattern_.accepts(body);
  if (!status.ok())
    *reason =
        status.error().why.empty() ? status.error().what : status.error().what + ": " + status.error().why;
  return status.ok();
}

bool Growth::seed() {
  std::string reason;
  const auto results = cover_.outputs(nodes_).size();
  if (results > static_cast<size_t>(std::max(1, pattern_.max_outputs)))
    reason = "it has " + std::to_string(results) + " results, " + pattern_.name + " stores " +
             std::to_string(pattern_.max_outputs);
  else if (accepted(nodes_, &reason))
    return true;
  refused_[anchor_] = reason;
  return false;
}

void Growth::grow() {
  for (bool changed = true; changed;) {
    changed = false;
    if (pattern_.grows_down) changed = pass(Direction::down) || changed;
    if (pattern_.grows_down && !pattern_.grows_up) changed = pass(Direction::sideways) || changed;
    if (pattern_.grows_up) changed = pass(Direction::up) || changed;
  }
  drop_outer_reshapes();
  for (NodeId node : nodes_) refused_.erase(node);
}

std::vector<Refusal> Growth::refusals() const {
  std::vector<Refusal> out;
  for (const auto& [node, reason] : refused_) out.push_back({anchor_, node, reason});
  return out;
}

bool Growth::pass(Direction direction) {
  bool changed = false;
  for (bool again = true; again;) {
    again = false;
    for (NodeId neighbour : neighbours(direction))
      if (tries_[neighbour] < kTriesPerNeighbour && step(neighbour)) {
        again = changed = true;
        break;  // the neighbours are others now
      }
  }
  return changed;
}

// Down: nearest first, so that all operands of a later node are inside before it is tried. Up: nearest first
// as well.
std::vector<NodeId> Growth::neighbours(Direction direction) const {
  std::vector<NodeId> out;
  auto consider = [&](NodeId node) {
    if (node != ir::kNoNode && cover_.absorbable(node) && !contains(nodes_, node)) out.push_back(node);
  };
  for (NodeId node : nodes_) {
    if (direction == Direction::down) {
      for (ValueId value : cover_.graph().node(node).outputs)
        for (NodeId reader : cover_.readers(value)) consider(reader);
    } else if (direction == Direction::up || node != anchor_) {
      for (ValueId value : cover_.graph().node(node).inputs)
        if (value != ir::kNoValue) consider(cover_.graph().value(value).producer);
    }
  }
  if (direction == Direction::up) {
    auto belongs_above = [&](NodeId node) { return epilogue_to_come(node, 0); };
    out.erase(std::remove_if(out.begin(), out.end(), belongs_above), out.end());
  }
  if (direction == Direction::sideways) {  // what feeds the anchor as well is growth upwards
    auto feeds_anchor = [&](NodeId node) {
      const auto& successors = cover_.successors(node);
      return std::find(successors.begin(), successors.end(), anchor_) != successors.end();
    };
    out.erase(std::remove_if(out.begin(), out.end(), feeds_anchor), out.end());
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (direction != Direction::down) std::reverse(out.begin(), out.end());
  return out;
}

// Arithmetic behind a contraction that has no region yet: as its epilogue it runs once for each element, as a
// prologue here once for each use. Only patterns that come before that contraction's ask; movement is an
// index map on either side.
bool Growth::epilogue_to_come(NodeId node, int depth) const {
  const ir::Graph& graph = cover_.graph();
  if (depth == 0 && ir::info(graph.node(node).op).op_class != ir::OpClass::pointwise) return false;
  for (ValueId value : graph.node(node).inputs) {
    const NodeId producer = value == ir::kNoValue ? ir::kNoNode : graph.value(value).producer;
    if (producer == ir::kNoNode || cover_.claimed(producer) || contains(nodes_, producer)) continue;
    const ir::OpClass op_class = ir::info(graph.node(producer).op).op_class;
    if (op_class == ir::OpClass::contraction || op_class == ir::OpClass::attention) return true;
    if (cover_.absorbable(producer) && depth < kLongestEpilogue && epilogue_to_come(producer, depth + 1))
      return true;
  }
  return false;
}

// The numbers are the same either way; this is about work. A pointwise region that would evaluate an exp once
// for every row that it is broadcast to leaves it in a region of its own. Anchors of other classes reuse
// operands, which their family judges.
bool Growth::repeats_costly_work(const std::vector<NodeId>& nodes, NodeId added) const {
  const ir::Graph& graph = cover_.graph();
  const auto anchor_class = ir::info(graph.node(anchor_).op).op_class;
  if (anchor_class != ir::OpClass::pointwise && anchor_class != ir::OpClass::movement) return false;
  auto broadcast = [&](NodeId producer, NodeId reader) {
    const Op op = graph.node(reader).op;
    if (op == Op::concat || op == Op::scatter_nd) return false;  // larger, but each element is used once
    for (ValueId value : graph.node(producer).outputs)
      for (ValueId read : graph.node(reader).inputs)
        if (read == value &&
            elements(graph, graph.node(reader).outputs[0]) >= kCostlyBroadcast * elements(graph, value))
          return true;
    return false;
  };
  for (NodeId node : nodes) {
    if (node == added) continue;
    if (broadcast(node, added))
      for (NodeId before : nodes)
        if (before <= node && costly(graph.node(before).op)) return true;
    if (costly(graph.node(added).op) && broadcast(added, node)) return true;
  }
  return false;
}

// A region computes without inner rounding, so two casts may not find their operand computed inside it: one to an integer, which
// tells a rounded sum from an exact one, and one that widens what another has narrowed, which would undo that rounding.
bool Growth::needs_stored_value(const std::vector<NodeId>& nodes) const {
  const ir::Graph& graph = cover_.graph();
  const auto inside = [&](ValueId value) {
    const NodeId producer = graph.value(value).producer;
    return producer != ir::kNoNode && contains(nodes, producer) ? producer : ir::kNoNode;
  };
  for (NodeId node : nodes) {
    if (graph.node(node).op != Op::cast) continue;
    const ValueId from = graph.node(node).inputs[0], to = graph.node(node).outputs[0];
    if (!ir::is_floating(graph.value(from).dtype)) continue;
    const bool to_float = ir::is_floating(graph.value(to).dtype);
    // Back along what passes values on as they are, to the operator that computed them.
    std::vector<ValueId> work = {from};
    for (size_t i = 0; i < work.size() && work.size() < 64; ++i) {
      const NodeId maker = inside(work[i]);
      if (maker == ir::kNoNode) continue;
      const ir::Node& made = graph.node(maker);
      const bool passes = ir::info(made.op).op_class == ir::OpClass::movement || made.op == Op::neg || made.op == Op::abs || made.op == Op::relu ||
                          made.op == Op::max || made.op == Op::min || made.op == Op::where;
      if (passes) {
        for (ValueId value : made.inputs)
          if (value != ir::kNoValue && ir::is_floating(graph.value(value).dtype)) work.push_back(value);
        continue;
      }
      const auto width = [&](ValueId value) { return ir::bytes_of(graph.value(value).dtype); };
      const bool narrowed = made.op == Op::cast && ir::is_floating(graph.value(made.inputs[0]).dtype) && width(made.outputs[0]) < width(made.inputs[0]);
      if (to_float ? narrowed && width(to) > width(from) : graph.value(to).dtype != ir::DType::boolean) return true;
    }
  }
  return false;
}

NodeId Growth::next_for_surplus(const std::vector<NodeId>& nodes, const std::vector<ValueId>& outputs,
                                std::string* reason) const {
  const ir::Graph& graph = cover_.graph();
  NodeId next = ir::kNoNode;
  for (ValueId value : outputs) {
    if (cover_.is_output(value)) {
      *reason = "\"" + graph.value(value).name + "\" is a result of the graph too";
      continue;
    }
    NodeId first = ir::kNoNode;
    bool all = true;
    for (NodeId reader : cover_.readers(value)) {
      if (contains(nodes, reader)) continue;
      if (!cover_.absorbable(reader)) {
        *reason = "\"" + graph.value(value).name + "\" has a second reader, " + graph.describe(reader);
        all = false;
      } else if (first == ir::kNoNode) {
        first = reader;
      }
    }
    if (all && first != ir::kNoNode && (next == ir::kNoNode || first < next)) next = first;
  }
  return next;
}

bool Growth::step(NodeId neighbour) {
  ++tries_[neighbour];
  std::vector<NodeId> trial = nodes_;
  NodeId added = neighbour;
  std::string reason;
  for (;;) {
    insert_sorted(trial, added);
    if (repeats_costly_work(trial, added)) {
      reason = "its operand is broadcast: computed once it is cheaper";
      break;
    }
    if (needs_stored_value(trial)) {
      reason = "a cast must read its operand as stored";
      break;
    }
    if (cover_.path_around(trial)) {
      reason = "it also depends on a node outside that reads this region";
      break;
    }
    const auto outputs = cover_.outputs(trial);
    if (outputs.size() <= static_cast<size_t>(std::max(1, pattern_.max_outputs))) {
      if (!accepted(trial, &reason)) break;
      nodes_ = std::move(trial);
      return true;
    }
    reason = "too many results";
    added = trial.size() - nodes_.size() >= kLongestStep ? ir::kNoNode
                                                         : next_for_surplus(trial, outputs, &reason);
    if (added == ir::kNoNode) break;
  }
  refused_[neighbour] = reason;
  return false;
}

// A reshape at the rim moves nothing: outside it is an alias and costs nothing, and without it more regions
// look alike.
void Growth::drop_outer_reshapes() {
  const ir::Graph& graph = cover_.graph();
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId node : nodes_) {
      if (graph.node(node).op != Op::reshape || node == anchor_ || nodes_.size() == 1) continue;
      const ValueId from = graph.node(node).inputs[0], to = graph.node(node).outputs[0];
      const NodeId producer = graph.value(from).producer;
      const bool reads_inside = producer != ir::kNoNode && contains(nodes_, producer);
      bool read_inside = false;
      for (NodeId reader : cover_.readers(to)) read_inside = read_inside || contains(nodes_, reader);
      if (reads_inside == read_inside) continue;  // in the middle
      if (cover_.is_output(to) || cover_.is_output(from)) continue;
      if (!graph.value(from).layout.dense() || !graph.value(to).layout.dense()) continue;
      std::vector<NodeId> trial = nodes_;
      trial.erase(std::lower_bound(trial.begin(), trial.end(), node));
      std::string reason;
      if (cover_.path_around(trial) || cover_.outputs(trial).size() > cover_.outputs(nodes_).size()) continue;
      if (!accepted(trial, &reason)) continue;
      nodes_ = std::move(trial);
      changed = true;
      break;
    }
  }
}

}  // namespace rtx::fuse

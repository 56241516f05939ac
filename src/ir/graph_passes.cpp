// Whole-graph helpers: comparing, pruning, sorting, cutting out.
#include <algorithm>
#include <queue>

#include "base/assert.h"
#include "ir/graph.h"

namespace rtx::ir {
namespace {

// Pairs the values of two graphs as the comparison walks both in step.
class Pairing {
 public:
  Pairing(const Graph& a, const Graph& b, bool names)
      : a_(a), b_(b), names_(names), partner_(a.values.size(), kNoValue), taken_(b.values.size(), false) {}

  bool same(ValueId x, ValueId y) {
    if (x == kNoValue || y == kNoValue) return x == y;
    auto& partner = partner_[static_cast<size_t>(x)];
    if (partner != kNoValue) return partner == y;
    if (taken_[static_cast<size_t>(y)]) return false;
    partner = y;
    taken_[static_cast<size_t>(y)] = true;
    const Value& left = a_.value(x);
    const Value& right = b_.value(y);
    if (names_ && left.name != right.name) return false;
    if (left.constant.has_value() != right.constant.has_value()) return false;
    if (left.constant && !left.constant->same_bytes(*right.constant)) return false;
    return left.dtype == right.dtype && left.shape == right.shape && left.layout == right.layout;
  }

  bool same(const std::vector<ValueId>& x, const std::vector<ValueId>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](ValueId l, ValueId r) { return same(l, r); });
  }

 private:
  const Graph& a_;
  const Graph& b_;
  bool names_;
  std::vector<ValueId> partner_;
  std::vector<bool> taken_;
};

bool same_state(Pairing& pairing, const State& x, const State& y) {
  return x.name == y.name && x.axis == y.axis && x.maximum == y.maximum && pairing.same(x.input, y.input) &&
         pairing.same(x.output, y.output);
}

// The values with `keep` set, renumbered; nodes likewise. Everything that refers to a dropped one must be dropped too.
Graph keep_only(const Graph& graph, const std::vector<bool>& keep_value, const std::vector<bool>& keep_node) {
  std::vector<ValueId> to_value(graph.values.size(), kNoValue);
  std::vector<NodeId> to_node(graph.nodes.size(), kNoNode);
  Graph out = graph;
  out.values.clear();
  out.nodes.clear();
  for (size_t n = 0, next = 0; n < graph.nodes.size(); ++n) {
    if (keep_node[n]) to_node[n] = static_cast<NodeId>(next++);
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (!keep_value[v]) continue;
    to_value[v] = static_cast<ValueId>(out.values.size());
    out.values.push_back(graph.values[v]);
    if (out.values.back().producer != kNoNode) out.values.back().producer = to_node[static_cast<size_t>(out.values.back().producer)];
  }
  auto renumber = [&](ValueId& id) {
    if (id != kNoValue) id = to_value[static_cast<size_t>(id)];
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!keep_node[n]) continue;
    out.nodes.push_back(graph.nodes[n]);
    for (auto& id : out.nodes.back().inputs) renumber(id);
    for (auto& id : out.nodes.back().outputs) renumber(id);
  }
  for (auto& id : out.inputs) renumber(id);
  for (auto& id : out.outputs) renumber(id);
  for (auto& state : out.states) {
    renumber(state.input);
    renumber(state.output);
  }
  return out;
}

}  // namespace

bool same_structure(const Graph& a, const Graph& b, bool compare_names) {
  Pairing pairing(a, b, compare_names);
  if (compare_names && a.name != b.name) return false;
  if (!pairing.same(a.inputs, b.inputs) || a.nodes.size() != b.nodes.size()) return false;
  for (size_t n = 0; n < a.nodes.size(); ++n) {
    const Node& x = a.nodes[n];
    const Node& y = b.nodes[n];
    if (x.op != y.op || !(complete(x.op, x.attributes) == complete(y.op, y.attributes))) return false;
    if (!pairing.same(x.inputs, y.inputs) || !pairing.same(x.outputs, y.outputs)) return false;
  }
  if (!pairing.same(a.outputs, b.outputs)) return false;
  for (size_t i = 0; compare_names && i < a.outputs.size(); ++i) {
    if (a.output_name(i) != b.output_name(i)) return false;
  }
  if (a.specialized.size() != b.specialized.size()) return false;
  for (size_t i = 0; i < a.specialized.size(); ++i) {
    if (a.specialized[i].name != b.specialized[i].name || !a.specialized[i].value.same_bytes(b.specialized[i].value)) return false;
  }
  return std::equal(a.states.begin(), a.states.end(), b.states.begin(), b.states.end(),
                    [&](const State& x, const State& y) { return same_state(pairing, x, y); });
}

Graph without_dead_code(const Graph& graph) {
  std::vector<bool> keep_value(graph.values.size(), false);
  std::vector<bool> keep_node(graph.nodes.size(), false);
  std::vector<ValueId> wanted = graph.outputs;
  for (const auto& state : graph.states) wanted.push_back(state.output);
  while (!wanted.empty()) {
    const ValueId id = wanted.back();
    wanted.pop_back();
    if (id == kNoValue || keep_value[static_cast<size_t>(id)]) continue;
    keep_value[static_cast<size_t>(id)] = true;
    const NodeId producer = graph.value(id).producer;
    if (producer == kNoNode || keep_node[static_cast<size_t>(producer)]) continue;
    keep_node[static_cast<size_t>(producer)] = true;
    const Node& node = graph.node(producer);
    wanted.insert(wanted.end(), node.inputs.begin(), node.inputs.end());
    wanted.insert(wanted.end(), node.outputs.begin(), node.outputs.end());
  }
  for (ValueId id : graph.inputs) keep_value[static_cast<size_t>(id)] = true;
  return keep_only(graph, keep_value, keep_node);
}

Result<Graph> sorted(Graph graph) {
  const size_t count = graph.nodes.size();
  std::vector<size_t> missing(count, 0);
  std::vector<std::vector<size_t>> followers(count);
  for (size_t n = 0; n < count; ++n) {
    for (ValueId id : graph.nodes[n].inputs) {
      if (id == kNoValue || graph.value(id).producer == kNoNode) continue;
      followers[static_cast<size_t>(graph.value(id).producer)].push_back(n);
      ++missing[n];
    }
  }
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t n = 0; n < count; ++n) {
    if (missing[n] == 0) ready.push(n);
  }
  std::vector<Node> nodes;
  nodes.reserve(count);
  while (!ready.empty()) {
    const size_t n = ready.top();
    ready.pop();
    for (ValueId id : graph.nodes[n].outputs) graph.value(id).producer = static_cast<NodeId>(nodes.size());
    nodes.push_back(graph.nodes[n]);
    for (size_t next : followers[n]) {
      if (--missing[next] == 0) ready.push(next);
    }
  }
  if (nodes.size() != count) {
    const auto stuck = std::find_if(missing.begin(), missing.end(), [](size_t m) { return m != 0; }) - missing.begin();
    const Node& node = graph.nodes[static_cast<size_t>(stuck)];
    const std::string shown = node.name.empty() ? std::string(name(node.op)) + " " + std::to_string(stuck) : node.name;
    return user_error("graph has a cycle", "node " + shown + " depends on its own result");
  }
  graph.nodes = std::move(nodes);
  return graph;
}

Graph extract(const Graph& graph, const std::vector<NodeId>& nodes, const std::vector<ValueId>& outputs, std::vector<ValueId>* input_map) {
  Graph out;
  out.name = graph.name;
  std::vector<NodeId> order = nodes;
  std::sort(order.begin(), order.end());
  std::vector<ValueId> inner(graph.values.size(), kNoValue);
  std::vector<bool> produced(graph.values.size(), false);
  for (NodeId n : order) {
    for (ValueId id : graph.node(n).outputs) produced[static_cast<size_t>(id)] = true;
  }
  if (input_map) input_map->clear();
  // The inner value of an outer one: made on first sight, as a constant, an input, or a result of a later loop turn.
  auto import = [&](ValueId id, NodeId producer) {
    if (id == kNoValue) return kNoValue;
    ValueId& mapped = inner[static_cast<size_t>(id)];
    if (mapped != kNoValue) return mapped;
    mapped = static_cast<ValueId>(out.values.size());
    out.values.push_back(graph.value(id));
    out.values.back().producer = producer;
    if (out.values.back().constant && out.values.back().constant->count() != 1) {  // its bytes do not change code
      out.values.back().constant.reset();
      out.values.back().weight = true;
    }
    if (producer == kNoNode && !out.values.back().constant) {
      RTX_ASSERT(!produced[static_cast<size_t>(id)], "a subgraph's nodes are in topological order");
      out.inputs.push_back(mapped);
      if (input_map) input_map->push_back(id);
    }
    return mapped;
  };
  for (NodeId n : order) {
    Node node = graph.node(n);
    for (auto& id : node.inputs) id = import(id, kNoNode);
    for (auto& id : node.outputs) id = import(id, static_cast<NodeId>(out.nodes.size()));
    out.nodes.push_back(std::move(node));
  }
  for (ValueId id : outputs) out.outputs.push_back(import(id, kNoNode));
  return out;
}

}  // namespace rtx::ir

// partition(): patterns in order of priority, anchors in topological order, each region grown as far as its
// family accepts.
//
// Anchors before pointwise work, because of the patterns' order: a residual add is taken by the matmul that
// feeds it, and the norm behind it starts its own region. Reshapes are never anchors at first: between
// regions they are aliases.
#include <algorithm>
#include <queue>
#include <utility>

#include "base/assert.h"
#include "fuse/grow.h"

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::ValueId;

class Partitioner {
 public:
  Partitioner(const ir::Graph& graph, const std::vector<Pattern>& patterns, const PartitionOptions& options)
      : graph_(graph), cover_(graph), patterns_(patterns), options_(options), reasons_(graph.nodes.size()) {}

  Result<Partition> run() {
    std::vector<NodeId> all;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].op != ir::Op::reshape) all.push_back(static_cast<NodeId>(i));
    cover_alone(all);
    cover_nodes(all);
    std::vector<NodeId> copies;
    decide_reshapes(&copies);
    options_.fuse = false;  // a copy takes no neighbours: the reshapes around it are aliases by now
    cover_nodes(copies);
    if (Status status = all_covered(); !status.ok()) return std::move(status).error();
    sort_regions();
    return std::move(out_);
  }

 private:
  void cover_alone(const std::vector<NodeId>& anchors) {
    std::vector<NodeId> alone;
    for (NodeId node : anchors)
      if (std::find(options_.alone.begin(), options_.alone.end(), graph_.node(node).op) != options_.alone.end()) alone.push_back(node);
    const bool fuse = std::exchange(options_.fuse, false);
    cover_nodes(alone);
    options_.fuse = fuse;
  }

  void cover_nodes(const std::vector<NodeId>& anchors) {
    if (!options_.fuse) {
      for (NodeId node : anchors)
        for (const Pattern& pattern : patterns_)
          if (start(pattern, node)) break;
      return;
    }
    for (const Pattern& pattern : patterns_)
      for (NodeId node : anchors) start(pattern, node);
  }

  bool start(const Pattern& pattern, NodeId node) {
    if (cover_.claimed(node) || !pattern.anchor(graph_, node)) return false;
    Growth growth(cover_, pattern, node);
    const bool claimed = growth.seed();
    if (claimed && options_.fuse) growth.grow();
    for (Refusal& refusal : growth.refusals()) {
      if (refusal.node == node)
        reasons_[static_cast<size_t>(node)].push_back(pattern.name + ": " + refusal.reason);
      out_.refusals.push_back(std::move(refusal));
    }
    if (claimed) claim(pattern, node, growth.nodes());
    return claimed;
  }

  void claim(const Pattern& pattern, NodeId anchor, const std::vector<NodeId>& nodes) {
    Region region;
    region.pattern = pattern.name;
    const ir::Node& node = graph_.node(anchor);
    region.name = node.name.empty() ? graph_.value(node.outputs[0]).name : node.name;
    region.nodes = nodes;
    region.anchor = anchor;
    region.outputs = cover_.outputs(nodes);
    region.body = ir::extract(graph_, nodes, region.outputs, &region.inputs);
    cover_.claim(nodes);
    out_.regions.push_back(std::move(region));
  }

  // A reshape outside regions shares its input's buffer, unless that cannot be: bytes in another order, a
  // result of the graph that would be the caller's input or a constant, or two results of the graph in one
  // buffer.
  void decide_reshapes(std::vector<NodeId>* copies) {
    std::vector<ValueId> root(graph_.values.size());
    for (size_t i = 0; i < root.size(); ++i) root[i] = static_cast<ValueId>(i);
    std::vector<char> holds_output(graph_.values.size(), 0);  // of each root: its buffer is a result already
    for (size_t i = 0; i < graph_.values.size(); ++i)
      holds_output[i] = cover_.is_output(static_cast<ValueId>(i));
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<NodeId>(i);
      if (graph_.nodes[i].op != ir::Op::reshape || cover_.claimed(id)) continue;
      const ValueId from = graph_.nodes[i].inputs[0], to = graph_.nodes[i].outputs[0];
      const ValueId origin = root[static_cast<size_t>(from)];
      bool copy = !graph_.value(from).layout.dense() || !graph_.value(to).layout.dense();
      if (cover_.is_output(to))
        copy =
            copy || graph_.value(origin).producer == ir::kNoNode || holds_output[static_cast<size_t>(origin)];
      if (copy) {
        copies->push_back(id);
        continue;
      }
      root[static_cast<size_t>(to)] = origin;
      if (cover_.is_output(to)) holds_output[static_cast<size_t>(origin)] = 1;
      out_.aliases.push_back(id);
    }
  }

  Status all_covered() const {
    std::vector<std::string> missing;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<NodeId>(i);
      if (cover_.claimed(id) || std::binary_search(out_.aliases.begin(), out_.aliases.end(), id)) continue;
      std::string line = "node " +
                         (graph_.nodes[i].name.empty() ? graph_.value(graph_.nodes[i].outputs[0]).name
                                                       : graph_.nodes[i].name) +
                         ": " + graph_.describe(id);
      for (const std::string& reason : reasons_[i]) line += "; " + reason;
      missing.push_back(std::move(line));
    }
    if (missing.empty()) return success();
    Error error = user_error("no kernel family computes " + std::to_string(missing.size()) +
                                 (missing.size() == 1 ? " node" : " nodes") + " of this graph",
                             "every node needs a family that accepts it");
    error.where = std::move(missing);
    return error;
  }

  // An order in which regions can run, as near to the graph's own as it goes (lifetimes stay short).
  void sort_regions() {
    const size_t count = out_.regions.size();
    std::vector<std::vector<size_t>> next(count);
    std::vector<int> waiting(count, 0);
    // Through aliases: the region behind a reshape waits for the one before it.
    std::vector<std::vector<int>> behind(graph_.nodes.size());
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const auto id = static_cast<NodeId>(i);
      if (cover_.owner(id) >= 0) {
        behind[i] = {cover_.owner(id)};
        continue;
      }
      for (NodeId reader : cover_.successors(id))
        behind[i].insert(behind[i].end(), behind[static_cast<size_t>(reader)].begin(),
                         behind[static_cast<size_t>(reader)].end());
    }
    for (size_t region = 0; region < count; ++region) {
      for (NodeId node : out_.regions[region].nodes)
        for (NodeId reader : cover_.successors(node))
          for (int after : behind[static_cast<size_t>(reader)])
            if (after != static_cast<int>(region)) next[region].push_back(static_cast<size_t>(after));
      std::sort(next[region].begin(), next[region].end());
      next[region].erase(std::unique(next[region].begin(), next[region].end()), next[region].end());
      for (size_t after : next[region]) ++waiting[after];
    }
    using Entry =
        std::pair<NodeId, size_t>;  // last node of the region: it runs when its last operand is there
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
    for (size_t i = 0; i < count; ++i)
      if (waiting[i] == 0) ready.push({out_.regions[i].nodes.back(), i});
    std::vector<Region> sorted;
    while (!ready.empty()) {
      const size_t region = ready.top().second;
      ready.pop();
      for (size_t after : next[region])
        if (--waiting[after] == 0) ready.push({out_.regions[after].nodes.back(), after});
      sorted.push_back(std::move(out_.regions[region]));
    }
    RTX_ASSERT(sorted.size() == count, "regions of a partition wait for each other");
    out_.regions = std::move(sorted);
  }

  const ir::Graph& graph_;
  Cover cover_;
  const std::vector<Pattern>& patterns_;
  PartitionOptions options_;
  std::vector<std::vector<std::string>> reasons_;  // by node: why patterns refused it as their anchor
  Partition out_;
};

}  // namespace

Result<Partition> partition(const ir::Graph& graph, const std::vector<Pattern>& patterns,
                            const PartitionOptions& options) {
  return Partitioner(graph, patterns, options).run();
}

}  // namespace rtx::fuse

#pragma once
// Cover: which region owns each node while partition() runs, and the questions growth asks about a trial set
// of nodes.
//
// A trial set may become a region when, with all regions claimed so far contracted to points, no path leaves
// it and comes back: only then is there an order in which regions run. Two regions can each be convex and
// still wait for each other
//
//     a1 -> b1        {a1, a2} and {b1, b2} are convex node sets,
//     b2 -> a2        yet neither can run first
//
// so the walk below steps through whole regions, not through nodes.
#include <string>
#include <vector>

#include "ir/graph.h"

namespace rtx::fuse {

class Cover {
 public:
  explicit Cover(const ir::Graph& graph);

  const ir::Graph& graph() const { return graph_; }
  bool claimed(ir::NodeId node) const { return owner_[static_cast<size_t>(node)] >= 0; }
  int owner(ir::NodeId node) const { return owner_[static_cast<size_t>(node)]; }
  // Nodes that read the value, in order, each once.
  const std::vector<ir::NodeId>& readers(ir::ValueId value) const {
    return readers_[static_cast<size_t>(value)];
  }
  bool is_output(ir::ValueId value) const { return is_output_[static_cast<size_t>(value)]; }
  // Nodes that must run after `node`: readers of its results, and writers of a state that it reads.
  const std::vector<ir::NodeId>& successors(ir::NodeId node) const {
    return successors_[static_cast<size_t>(node)];
  }

  // May be claimed by a region that grows: unclaimed, pointwise or movement.
  bool absorbable(ir::NodeId node) const;
  // `nodes` sorted. True when a path through other regions and nodes leads from the set back into it.
  bool path_around(const std::vector<ir::NodeId>& nodes) const;
  // Values of `nodes` that someone outside reads or that are graph outputs; never empty.
  std::vector<ir::ValueId> outputs(const std::vector<ir::NodeId>& nodes) const;
  int claim(const std::vector<ir::NodeId>& nodes);

 private:
  bool cannot_reach(ir::NodeId node, ir::NodeId last) const;

  const ir::Graph& graph_;
  std::vector<std::vector<ir::NodeId>> readers_, successors_;
  std::vector<char> is_output_;
  std::vector<int> owner_;
  std::vector<std::vector<ir::NodeId>> groups_;  // sorted nodes of each claimed region
  bool ordered_ = true;            // every successor stands after its node: indices prune the walk
  mutable std::vector<int> mark_;  // walk stamps
  mutable int stamp_ = 0;
};

}  // namespace rtx::fuse

#pragma once
// Region: nodes that one kernel computes, and partition(), which covers a graph with regions.
#include <string>
#include <vector>

#include "fuse/pattern.h"
#include "ir/graph.h"

namespace rtx::fuse {

struct Region {
  std::string pattern;            // name of the pattern that claimed it
  std::string name;               // readable: from its anchor's node name
  std::vector<ir::NodeId> nodes;  // of the outer graph, in order
  ir::NodeId anchor = ir::kNoNode;
  ir::Graph body;                    // extract() of nodes
  std::vector<ir::ValueId> inputs;   // outer values, one per body input
  std::vector<ir::ValueId> outputs;  // outer values, one per body output
};

// Why a node was not absorbed: for `explain`.
struct Refusal {
  ir::NodeId anchor;
  ir::NodeId node;
  std::string reason;
};

struct Partition {
  std::vector<Region> regions;  // in an order in which they can run
  std::vector<Refusal> refusals;
  // Reshapes that stay outside regions: the result shares its input's buffer (row-major, same bytes), nothing
  // runs.
  std::vector<ir::NodeId> aliases;
};

struct PartitionOptions {
  bool fuse = true;  // false: one region per node (the unfused baseline)
  std::vector<ir::Op> alone{};  // nodes of these operators are regions of their own, the rest is fused: a library computes them
};

// Covers every node with exactly one region or alias. Patterns are tried in order; growth keeps regions
// convex (no path leaves and re-enters) and never hides a value that someone outside reads or that is a graph
// output, unless it becomes one more output. Fails (kind user, unsupported) naming every node that no pattern
// accepts.
Result<Partition> partition(const ir::Graph& graph, const std::vector<Pattern>& patterns,
                            const PartitionOptions& options = {});

}  // namespace rtx::fuse

#pragma once
// Pattern: what a family can claim, as a value. fuse grows regions around anchors and never learns a family's
// name or limits: `accepts` asks the family itself whether it can build a problem from a candidate body.
#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace rtx::fuse {

struct Pattern {
  std::string name;  // the family's
  // Where a region of this family may start.
  std::function<bool(const ir::Graph&, ir::NodeId)> anchor;
  // May the region grow over pointwise and movement nodes that read its result / that feed it?
  bool grows_down = true;
  bool grows_up = false;
  // Largest number of results a region may store (2: a norm that also stores its residual sum).
  int max_outputs = 1;
  // Can the family compute this body? Success, or the reason (kept for `explain`).
  std::function<Status(const ir::Graph& body)> accepts;
};

}  // namespace rtx::fuse

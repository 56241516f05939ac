#pragma once
// Growth of one region from its anchor.
//
// A step takes one neighbour. Where that leaves more results than the pattern may store (x * sigmoid(x): the
// first step leaves x and the sigmoid) the step goes on through the readers of the surplus results, and is
// taken or dropped as a whole. The family has the last word on every step: Pattern::accepts sees the body the
// region would have.
#include <map>
#include <vector>

#include "fuse/cover.h"
#include "fuse/region.h"

namespace rtx::fuse {

class Growth {
 public:
  Growth(const Cover& cover, const Pattern& pattern, ir::NodeId anchor);

  // The anchor alone; false (with a refusal) when the family cannot compute it.
  bool seed();
  void grow();
  const std::vector<ir::NodeId>& nodes() const { return nodes_; }
  // Why neighbours stayed outside.
  std::vector<Refusal> refusals() const;

 private:
  // Sideways: producers of operands that only the nodes behind the anchor read (the other side of an add in
  // an epilogue).
  enum class Direction { down, sideways, up };
  bool pass(Direction direction);
  std::vector<ir::NodeId> neighbours(Direction direction) const;
  bool step(ir::NodeId neighbour);
  bool accepted(const std::vector<ir::NodeId>& nodes, std::string* reason) const;
  // The next node to take so that fewer results remain, or kNoNode with the reason.
  ir::NodeId next_for_surplus(const std::vector<ir::NodeId>& nodes, const std::vector<ir::ValueId>& outputs,
                              std::string* reason) const;
  bool epilogue_to_come(ir::NodeId node, int depth) const;
  bool needs_stored_value(const std::vector<ir::NodeId>& nodes) const;
  bool repeats_costly_work(const std::vector<ir::NodeId>& nodes, ir::NodeId added) const;
  void drop_outer_reshapes();

  const Cover& cover_;
  const Pattern& pattern_;
  ir::NodeId anchor_;
  std::vector<ir::NodeId> nodes_;  // sorted
  std::map<ir::NodeId, std::string> refused_;
  std::map<ir::NodeId, int> tries_;
};

}  // namespace rtx::fuse

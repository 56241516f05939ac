#pragma once
// Lowering: from a region's body (pointwise and movement operators around a family's anchor) to an ElementDag.
//
// A value at given coordinates is an expression: pointwise operators apply to their inputs at broadcast coordinates, movement
// operators change the coordinates (reshape: unravel(ravel)), gather loads an index and substitutes it, concat selects by
// coordinate. The recursion ends at region inputs (loads), single-element constants (constants) and the family's leaves.
#include <map>
#include <vector>

#include "base/result.h"
#include "codegen/element.h"

namespace rtx::codegen {

class Lowering {
 public:
  explicit Lowering(const ir::Graph& body);

  // Declares that `value` (an anchor's output, say) at coordinates c is leaf `leaf`, provided c equals the coordinates the family
  // gives here; a request at other coordinates is refused (the epilogue would need another element of the anchor's result).
  void define_leaf(ir::ValueId value, int leaf, std::vector<Index> at);
  // A row statistic or other leaf that depends only on some coordinates: `accepts` may be given to compare only those.

  // The element of `value` at `coordinates`. Refused (kind user, a sentence for `explain`): an operator that is not pointwise or
  // movement, a leaf at foreign coordinates, an expression larger than `kMaxElements`.
  Result<int> element(ir::ValueId value, const std::vector<Index>& coordinates);
  // Adds the store of `element` to body output `output` at `coordinates` of that output (layout strides applied).
  Status store(int output, const std::vector<Index>& coordinates, int element);

  const ElementDag& dag() const { return dag_; }
  ElementDag take() { return std::move(dag_); }

  static constexpr int kMaxElements = 512;

 private:
  const ir::Graph& body_;
  ElementDag dag_;
  struct Leaf;
  std::map<ir::ValueId, std::vector<Leaf>> leaves_;
  std::map<std::string, int> known_;  // structural key -> element: shares common subexpressions
};

// For an epilogue: the body output `output` is reached from `anchor_value` by pointwise and movement operators. Inverts the
// movements (reshape, transpose) so that the anchor's coordinates (given as variables) yield the output's coordinates.
// Refused when the path changes the element count (expand, slice, concat, gather of the anchor's result).
Result<std::vector<Index>> output_coordinates(const ir::Graph& body, ir::ValueId anchor_value, ir::ValueId output_value,
                                              const std::vector<Index>& anchor_coordinates);

// One call for the usual case: all body outputs that depend on `anchor_value` become stores of a DAG over the anchor's
// coordinates, with the anchor's own value as leaf `leaf`.
Result<ElementDag> lower_epilogue(const ir::Graph& body, ir::ValueId anchor_value, int leaf, const std::vector<Index>& anchor_coordinates);
// And for a prologue: `value` (an anchor's input) at `coordinates` as a DAG without stores whose last element is the value.
struct LoweredValue {
  ElementDag dag;
  int element = 0;
};
Result<LoweredValue> lower_value(const ir::Graph& body, ir::ValueId value, const std::vector<Index>& coordinates);

}  // namespace rtx::codegen

#pragma once
// Lowering: from a region's body (pointwise and movement operators around a family's anchor) to an ElementDag.
//
// A value at given coordinates is an expression: pointwise operators apply to their inputs at broadcast coordinates, movement
// operators change the coordinates (reshape: unravel(ravel)), gather loads an index and substitutes it, concat selects by
// coordinate. The recursion ends at region inputs (loads), single-element constants (constants) and the family's leaves.
//
// Index tensors are data: an index outside its axis is clamped into it, so that no kernel reads out of bounds.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/element.h"

namespace rtx::codegen {

class Lowering {
 public:
  explicit Lowering(const ir::Graph& body);

  // Declares that `value` (an anchor's output, say) at coordinates `at` is leaf `leaf`; a request at other coordinates is refused
  // (the epilogue would need another element of the anchor's result). A row statistic is a value with extent 1 along the row.
  void define_leaf(ir::ValueId value, int leaf, std::vector<Index> at);

  // The element of `value` at `coordinates`. Refused (kind user, a sentence for `explain`): an operator that is not pointwise or
  // movement, a leaf at foreign coordinates, an expression larger than `kMaxElements`.
  Result<int> element(ir::ValueId value, const std::vector<Index>& coordinates);
  // Adds the store of `element` to body output `output` at `coordinates` of that output (layout strides applied).
  Status store(int output, const std::vector<Index>& coordinates, int element);

  const ElementDag& dag() const { return dag_; }
  ElementDag take() { return std::move(dag_); }

  static constexpr int kMaxElements = 512;

 private:
  struct Leaf {
    int leaf;
    std::vector<Index> at;
  };
  Result<int> make(ir::ValueId value, const std::vector<Index>& coordinates);
  Result<int> pointwise(const ir::Node& node, ir::ValueId value, const std::vector<Index>& coordinates);
  Result<int> concat(const ir::Node& node, const std::vector<Index>& coordinates);
  Result<int> rotary(const ir::Node& node, const std::vector<Index>& coordinates);
  // One of several formulas by where `along` lies: ranges in rising order that cover it. Loads of a formula are guarded by its range.
  struct Piece {
    int64_t low, high;
    std::function<Result<int>()> value;
  };
  Result<int> piecewise(ir::DType dtype, const Index& along, const std::vector<Piece>& pieces);
  Result<int> trilu(const ir::Node& node, ir::ValueId value, const std::vector<Index>& coordinates);
  Result<Index> index_of(ir::ValueId indices, const std::vector<Index>& coordinates, int64_t extent);
  int load(ir::ValueId value, const std::vector<Index>& coordinates);
  int add(Element element);
  int integer(ir::DType dtype, int64_t value);
  int operation(ir::Op op, ir::DType dtype, std::vector<int> arguments, ir::Attributes attributes = {});
  int buffer(ir::ValueId value, bool output, int position);

  const ir::Graph& body_;
  ElementDag dag_;
  int guard_ = -1;  // what must hold for the loads that are made now
  std::map<ir::ValueId, std::vector<Leaf>> leaves_;
  std::map<std::string, int> known_;  // structural key -> element: shares common subexpressions
};

// True when the lowering understands this operator.
bool lowers(ir::Op op);

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

// Coordinates of `value` as fresh variables 0, 1, ...: one per dimension.
std::vector<Index> variables_of(const std::vector<int64_t>& extents, int first = 0);
// Strides of a value in its buffer: its layout's, or dense ones.
std::vector<int64_t> strides_of(const ir::Value& value);

}  // namespace rtx::codegen

#pragma once
// Which dimensions of a graph's values are one and the same, and what operators do along them. With that a body can be computed for
// some rows of its result only, or be made smaller, without knowing what it is: both are the same graph with other extents.
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace rtx::validate {

// One dimension under its many names: the rows of a matrix product's result, of its left operand, of a residual that is added.
struct Axis {
  int64_t extent = 1;
  bool fixed = false;       // the graph's meaning hangs on the extent (a reshape that splits it, heads, a constant, a strided value)
  bool mixed = false;       // elements along it meet (a sum's terms, a softmax's row) or their position counts
};

class Axes {
 public:
  explicit Axes(const ir::Graph& graph);
  // The axis of a dimension: an index for at(); -1 where the extent is at most 1, which is the same everywhere.
  int of(ir::ValueId value, size_t dimension) const;
  const Axis& at(int axis) const { return axes_[static_cast<size_t>(axis)]; }
  int count() const { return static_cast<int>(axes_.size()); }

 private:
  std::vector<std::vector<int>> index_;  // by value and dimension
  std::vector<Axis> axes_;
};

// Operations of one evaluation: what the reference has to do.
double work_of(const ir::Graph& graph);

// The graph with `extent` along an axis that is not fixed.
ir::Graph resized(ir::Graph graph, const Axes& axes, const std::vector<std::pair<int, int64_t>>& extents);

// Rows of a body's result to be computed in place of all of them. A causal or windowed attention gets its triangle as a mask.
struct RowSample {
  std::vector<int64_t> rows;                     // ascending
  std::vector<std::vector<size_t>> inputs;       // dimensions of each input along which `rows` are taken; none: all of it is needed
  std::vector<std::vector<size_t>> outputs;      // and of each output
  ir::Graph graph;                               // computes them
};
// At least 64 rows: the first, the last, at the edges of tiles, and random ones. None when no axis runs through every output and
// keeps its elements apart, or when all it has are not many more.
std::optional<RowSample> sample_rows(const ir::Graph& graph, uint64_t seed);

// The elements at `rows` along `dimensions`.
ir::HostTensor take_rows(const ir::HostTensor& tensor, const std::vector<int64_t>& rows, const std::vector<size_t>& dimensions);

}  // namespace rtx::validate

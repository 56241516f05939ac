#pragma once
// Shape and dtype inference: the outputs of one node from its inputs. One rule a row of the operator table.
#include <string>
#include <vector>

#include "ir/graph.h"

namespace rtx::ir {

struct ValueType {
  DType dtype;
  Shape shape;
};

// Output types of `node` placed in `graph`; `wanted` gives the output type where inputs do not imply it (cast, reshape, slice, expand).
// Errors are the user's: they name the operator, the shapes and the rule that does not hold.
Result<std::vector<ValueType>> infer(const Graph& graph, const Node& node, const std::vector<ValueType>& wanted = {});

// Numpy broadcasting of two shapes.
Result<Shape> broadcast(const Shape& a, const Shape& b);

}  // namespace rtx::ir

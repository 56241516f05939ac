#pragma once
// Private to ir: the shape rules behind infer(), one function an operator class, and the words they share.
#include <string>
#include <vector>

#include "ir/infer.h"

namespace rtx::ir::infer_rules {

using Types = std::vector<ValueType>;

// A node with its input values looked up; null for an absent optional input. Arity and attribute kinds are checked before a
// rule sees it.
struct Inputs {
  const Node& node;
  std::vector<const Value*> values;
  bool has(size_t i) const { return i < values.size() && values[i] != nullptr; }
  const Shape& shape(size_t i) const { return values[i]->shape; }
  DType dtype(size_t i) const { return values[i]->dtype; }
};

Error refuse(const Inputs& in, std::string why);
Status axis_in_rank(const Inputs& in, int64_t axis, size_t rank);
Status flag(const Inputs& in, std::string_view attribute);
Status same_dtype(const Inputs& in, size_t a, size_t b);
Status floating(const Inputs& in, size_t i);
Status rank_at_least(const Inputs& in, size_t i, size_t rank);
Result<Shape> broadcast_of(const Inputs& in, const Shape& a, const Shape& b);

Result<Types> infer_pointwise(const Inputs& in, const Types& wanted);
Result<Types> infer_movement(const Inputs& in, const Types& wanted);
Result<Types> infer_reduction(const Inputs& in);
Result<Types> infer_scan(const Inputs& in);
Result<Types> infer_normalization(const Inputs& in);
Result<Types> infer_matmul(const Inputs& in);
Result<Types> infer_rotary(const Inputs& in);
Result<Types> infer_attention(const Inputs& in);

}  // namespace rtx::ir::infer_rules

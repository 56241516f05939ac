// Shape rules of reductions, scans and row operators.
#include "ir/infer_rules.h"

namespace rtx::ir::infer_rules {

Result<Types> infer_reduction(const Inputs& in) {
  const Op op = in.node.op;
  const auto axes = in.node.attributes.integers("axes");
  const Shape& from = in.shape(0);
  if (in.dtype(0) == DType::boolean && op != Op::reduce_max && op != Op::reduce_min) {
    return refuse(in, "a sum of bool is not defined");
  }
  RTX_CHECK(flag(in, "keepdims"));
  for (size_t i = 0; i < axes.size(); ++i) {
    RTX_CHECK(axis_in_rank(in, axes[i], from.size()));
    if (i > 0 && axes[i] <= axes[i - 1]) return refuse(in, "axes " + text(axes) + " are not sorted and distinct");
  }
  Shape shape;
  size_t next = 0;
  for (size_t d = 0; d < from.size(); ++d) {
    const bool reduced = next < axes.size() && axes[next] == static_cast<int64_t>(d);
    if (reduced) ++next;
    if (!reduced) shape.push_back(from[d]);
    if (reduced && in.node.attributes.integer("keepdims")) shape.push_back(Dim(1));
  }
  return Types{{in.dtype(0), shape}};
}

Result<Types> infer_scan(const Inputs& in) {
  if (in.dtype(0) == DType::boolean) return refuse(in, "a sum of bool is not defined");
  RTX_CHECK(axis_in_rank(in, in.node.attributes.integer("axis"), in.shape(0).size()));
  RTX_CHECK(flag(in, "exclusive"));
  RTX_CHECK(flag(in, "reverse"));
  return Types{{in.dtype(0), in.shape(0)}};
}

Result<Types> infer_normalization(const Inputs& in) {
  const Op op = in.node.op;
  const int64_t axis = in.node.attributes.integer("axis");
  const Shape& shape = in.shape(0);
  RTX_CHECK(floating(in, 0));
  RTX_CHECK(axis_in_rank(in, axis, shape.size()));
  Types types{{in.dtype(0), shape}};
  if (op == Op::softmax || op == Op::log_softmax) return types;
  const Shape trailing(shape.begin() + axis, shape.end());
  for (size_t i = 1; i < in.values.size(); ++i) {
    if (!in.has(i)) continue;
    RTX_CHECK(floating(in, i));
    RTX_CHECK(same_dtype(in, 0, i));
    RTX_TRY(auto joined, broadcast_of(in, trailing, in.shape(i)));
    if (joined != trailing) {
      return refuse(in, "input " + std::to_string(i) + " of shape " + text(in.shape(i)) + " does not broadcast to the normalised axes " +
                            text(trailing));
    }
  }
  if (op == Op::rms_norm) return types;
  Shape statistics = shape;
  for (size_t d = static_cast<size_t>(axis); d < statistics.size(); ++d) statistics[d] = Dim(1);
  types.push_back({compute_dtype(in.dtype(0)), statistics});
  types.push_back({compute_dtype(in.dtype(0)), statistics});
  return types;
}

}  // namespace rtx::ir::infer_rules

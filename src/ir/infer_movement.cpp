#include <algorithm>

#include "ir/infer_rules.h"

namespace rtx::ir::infer_rules {
namespace {

Status index_dtype(const Inputs& in, size_t i) {
  const DType dtype = in.dtype(i);
  if (dtype == DType::i32 || dtype == DType::i64) return success();
  return refuse(in, "indices are " + std::string(name(dtype)) + ", expected i32 or i64");
}

Result<Types> reshape(const Inputs& in, const Types& wanted) {
  if (wanted.empty()) return refuse(in, "the shape to give is not stated");
  const Shape& shape = wanted[0].shape;
  if (is_bound(shape) && is_bound(in.shape(0))) {
    auto from = checked_element_count(extents(in.shape(0)));
    auto to = checked_element_count(extents(shape));
    if (!from.ok()) return refuse(in, from.error().what);
    if (!to.ok()) return refuse(in, to.error().what);
    if (*from != *to) {
      return refuse(in, text(in.shape(0)) + " has " + std::to_string(*from) + " elements, " + text(shape) + " has " + std::to_string(*to));
    }
  }
  return Types{{in.dtype(0), shape}};
}

Result<Types> transpose(const Inputs& in) {
  const auto perm = in.node.attributes.integers("perm");
  const size_t rank = in.shape(0).size();
  std::vector<bool> seen(rank, false);
  bool valid = perm.size() == rank;
  for (size_t i = 0; valid && i < rank; ++i) {
    valid = perm[i] >= 0 && perm[i] < static_cast<int64_t>(rank) && !seen[static_cast<size_t>(perm[i])];
    if (valid) seen[static_cast<size_t>(perm[i])] = true;
  }
  if (!valid) return refuse(in, "perm " + text(perm) + " is not a permutation of " + std::to_string(rank) + " axes");
  Shape shape(rank);
  for (size_t i = 0; i < rank; ++i) shape[i] = in.shape(0)[static_cast<size_t>(perm[i])];
  return Types{{in.dtype(0), shape}};
}

// The indices start, start + step, ... stay inside [0, size); an empty slice may start anywhere from -1 to size.
bool slice_fits(int64_t start, int64_t step, int64_t length, int64_t size) {
  if (step == 0 || length < 0) return false;
  if (length == 0) return start >= -1 && start <= size;
  int64_t last = 0;
  if (__builtin_mul_overflow(length - 1, step, &last) || __builtin_add_overflow(last, start, &last)) return false;
  return start >= 0 && start < size && last >= 0 && last < size;
}

Result<Types> slice(const Inputs& in, const Types& wanted) {
  if (wanted.empty()) return refuse(in, "the shape to give is not stated");
  const auto starts = in.node.attributes.integers("starts");
  const auto steps = in.node.attributes.integers("steps");
  const Shape& from = in.shape(0);
  const Shape& to = wanted[0].shape;
  if (starts.size() != from.size() || steps.size() != from.size() || to.size() != from.size()) {
    return refuse(in, "starts, steps and the result have one entry a dimension, found " + text(starts) + ", " + text(steps) + ", " + text(to));
  }
  for (size_t i = 0; i < from.size(); ++i) {
    if (steps[i] == 0) return refuse(in, "the step of axis " + std::to_string(i) + " is 0");
    if (!from[i].is_constant() || !to[i].is_constant()) continue;
    if (!slice_fits(starts[i], steps[i], extent(to[i]), extent(from[i]))) {
      return refuse(in, "axis " + std::to_string(i) + " of size " + from[i].text() + " has no " + to[i].text() + " elements from " +
                            std::to_string(starts[i]) + " by " + std::to_string(steps[i]));
    }
  }
  return Types{{in.dtype(0), to}};
}

Result<Types> expand(const Inputs& in, const Types& wanted) {
  if (wanted.empty()) return refuse(in, "the shape to give is not stated");
  RTX_TRY(auto shape, broadcast_of(in, in.shape(0), wanted[0].shape));
  if (shape != wanted[0].shape) return refuse(in, text(in.shape(0)) + " does not expand to " + text(wanted[0].shape));
  return Types{{in.dtype(0), shape}};
}

Result<Types> concat(const Inputs& in) {
  const int64_t axis = in.node.attributes.integer("axis");
  Shape shape = in.shape(0);
  RTX_CHECK(axis_in_rank(in, axis, shape.size()));
  const auto joined = static_cast<size_t>(axis);
  for (size_t i = 1; i < in.values.size(); ++i) {
    RTX_CHECK(same_dtype(in, 0, i));
    const Shape& other = in.shape(i);
    bool fits = other.size() == shape.size();
    for (size_t d = 0; fits && d < shape.size(); ++d) fits = d == joined || other[d] == shape[d];
    if (!fits) {
      return refuse(in, "input " + std::to_string(i) + " of shape " + text(other) + " differs from " + text(in.shape(0)) +
                            " in more than axis " + std::to_string(axis));
    }
    shape[joined] = shape[joined] + other[joined];
  }
  return Types{{in.dtype(0), shape}};
}

Result<Types> gather(const Inputs& in) {
  const int64_t axis = in.node.attributes.integer("axis");
  const Shape& data = in.shape(0);
  RTX_CHECK(axis_in_rank(in, axis, data.size()));
  RTX_CHECK(index_dtype(in, 1));
  Shape shape(data.begin(), data.begin() + axis);
  shape.insert(shape.end(), in.shape(1).begin(), in.shape(1).end());
  shape.insert(shape.end(), data.begin() + axis + 1, data.end());
  return Types{{in.dtype(0), shape}};
}

// The length of an index tuple: the last dimension of the indices, between 1 and `most`.
Result<size_t> tuple_length(const Inputs& in, size_t most) {
  const Dim& last = in.shape(1).back();
  if (!last.is_constant()) return refuse(in, "the last dimension of the indices is not a constant");
  if (extent(last) < 1 || extent(last) > static_cast<int64_t>(most)) {
    return refuse(in, "an index tuple has " + last.text() + " entries, expected 1 to " + std::to_string(most));
  }
  return static_cast<size_t>(extent(last));
}

Result<Types> gather_nd(const Inputs& in) {
  RTX_CHECK(rank_at_least(in, 0, 1));
  RTX_CHECK(rank_at_least(in, 1, 1));
  RTX_CHECK(index_dtype(in, 1));
  const Shape& data = in.shape(0);
  const Shape& indices = in.shape(1);
  const int64_t batch = in.node.attributes.integer("batch_dims");
  if (batch < 0 || batch >= static_cast<int64_t>(std::min(data.size(), indices.size()))) {
    return refuse(in, "batch_dims " + std::to_string(batch) + " is not below the rank of both inputs");
  }
  const auto leading = static_cast<size_t>(batch);
  for (size_t i = 0; i < leading; ++i) {
    if (!(data[i] == indices[i])) return refuse(in, "batch axis " + std::to_string(i) + " differs between data and indices");
  }
  RTX_TRY(size_t tuple, tuple_length(in, data.size() - leading));
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + static_cast<int64_t>(leading + tuple), data.end());
  return Types{{in.dtype(0), shape}};
}

Result<Types> scatter_nd(const Inputs& in) {
  RTX_CHECK(rank_at_least(in, 0, 1));
  RTX_CHECK(rank_at_least(in, 1, 1));
  RTX_CHECK(index_dtype(in, 1));
  RTX_CHECK(same_dtype(in, 0, 2));
  const int64_t reduction = in.node.attributes.integer("reduction");
  if (reduction < 0 || reduction > 4) return refuse(in, "reduction " + std::to_string(reduction) + " is outside [0, 4]");
  if (reduction != 0 && in.dtype(0) == DType::boolean) return refuse(in, "a reduction of bool is not defined");
  const Shape& data = in.shape(0);
  const Shape& indices = in.shape(1);
  RTX_TRY(size_t tuple, tuple_length(in, data.size()));
  Shape updates(indices.begin(), indices.end() - 1);
  updates.insert(updates.end(), data.begin() + static_cast<int64_t>(tuple), data.end());
  if (in.shape(2) != updates) return refuse(in, "updates have shape " + text(in.shape(2)) + ", expected " + text(updates));
  return Types{{in.dtype(0), data}};
}

Result<Types> tensor_scatter(const Inputs& in) {
  RTX_CHECK(rank_at_least(in, 0, 2));
  RTX_CHECK(same_dtype(in, 0, 1));
  RTX_CHECK(flag(in, "circular"));
  const Shape& cache = in.shape(0);
  const int64_t axis = in.node.attributes.integer("axis");
  if (axis < 1 || axis >= static_cast<int64_t>(cache.size())) return refuse(in, "axis " + std::to_string(axis) + " is outside [1, " + std::to_string(cache.size() - 1) + "]");
  Shape fresh = cache;
  if (in.shape(1).size() == cache.size()) fresh[static_cast<size_t>(axis)] = in.shape(1)[static_cast<size_t>(axis)];
  RTX_CHECK(shape_is(in, 1, fresh));
  const Dim &rows = fresh[static_cast<size_t>(axis)], &room = cache[static_cast<size_t>(axis)];
  if (rows.is_constant() && room.is_constant() && extent(rows) > extent(room)) return refuse(in, rows.text() + " rows do not fit into " + room.text());
  if (in.dtype(2) != DType::i64) return refuse(in, "start is " + std::string(name(in.dtype(2))) + ", expected i64");
  RTX_CHECK(shape_is(in, 2, {cache[0]}));
  return Types{{in.dtype(0), cache}};
}

}  // namespace

Result<Types> infer_movement(const Inputs& in, const Types& wanted) {
  switch (in.node.op) {
    case Op::reshape: return reshape(in, wanted);
    case Op::transpose: return transpose(in);
    case Op::slice: return slice(in, wanted);
    case Op::expand: return expand(in, wanted);
    case Op::concat: return concat(in);
    case Op::gather: return gather(in);
    case Op::gather_nd: return gather_nd(in);
    case Op::scatter_nd: return scatter_nd(in);
    case Op::tensor_scatter: return tensor_scatter(in);
    case Op::trilu:
      RTX_CHECK(rank_at_least(in, 0, 2));
      RTX_CHECK(flag(in, "upper"));
      return Types{{in.dtype(0), in.shape(0)}};
    default: return refuse(in, "the operator moves no data");
  }
}

}  // namespace rtx::ir::infer_rules

// Operators that read index values: gather, gather_nd, scatter_nd, tensor_scatter. An index outside its dimension is the user's error.
#include <cmath>

#include "reference/evaluator.h"
#include "reference/index.h"

namespace rtx::reference {
namespace {

using ir::Op;

Result<int64_t> resolved(int64_t index, int64_t size) {
  const int64_t at = index < 0 ? index + size : index;
  if (at >= 0 && at < size) return at;
  if (size == 0) return user_error("index is out of range", "index " + std::to_string(index) + " reads a dimension of size 0");
  return user_error("index is out of range",
                    "index " + std::to_string(index) + " is outside [" + std::to_string(-size) + ", " + std::to_string(size - 1) + "]");
}

void copy_block(RefTensor& out, int64_t to, const RefTensor& from, int64_t at, int64_t block) {
  if (out.floating()) std::copy(from.reals.begin() + at, from.reals.begin() + at + block, out.reals.begin() + to);
  else std::copy(from.integers.begin() + at, from.integers.begin() + at + block, out.integers.begin() + to);
}

Result<Results> gather(const Call& call) {
  const RefTensor& data = call.input(0);
  const RefTensor& indices = call.input(1);
  Results out{make(call)};
  const auto axis = static_cast<size_t>(call.integer("axis"));
  const int64_t outer = product(data.extents, 0, axis);
  const int64_t size = data.extents[axis];
  const int64_t block = product(data.extents, axis + 1, data.extents.size());
  int64_t to = 0;
  std::vector<int64_t> rows;
  for (int64_t index : indices.integers) {
    RTX_TRY(int64_t row, resolved(index, size));
    rows.push_back(row);
  }
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t row : rows) {
      copy_block(out[0], to, data, (o * size + row) * block, block);
      to += block;
    }
  }
  return out;
}

// The element offset that an index tuple points at, in dimensions [first, first + length) of `extents`.
Result<int64_t> tuple_offset(const RefTensor& indices, int64_t tuple, int64_t length, const Extents& extents, size_t first) {
  const Extents strides = ir::row_major_strides(extents);
  int64_t offset = 0;
  for (int64_t t = 0; t < length; ++t) {
    const size_t d = first + static_cast<size_t>(t);
    RTX_TRY(int64_t at, resolved(indices.integers[static_cast<size_t>(tuple * length + t)], extents[d]));
    offset += at * strides[d];
  }
  return offset;
}

Result<Results> gather_nd(const Call& call) {
  const RefTensor& data = call.input(0);
  const RefTensor& indices = call.input(1);
  Results out{make(call)};
  const auto batch_dims = static_cast<size_t>(call.integer("batch_dims"));
  const int64_t length = indices.extents.back();
  const int64_t batches = product(indices.extents, 0, batch_dims);
  const int64_t tuples = product(indices.extents, batch_dims, indices.extents.size() - 1);
  const int64_t per_batch = product(data.extents, batch_dims, data.extents.size());
  const int64_t block = product(data.extents, batch_dims + static_cast<size_t>(length), data.extents.size());
  for (int64_t i = 0; i < batches * tuples; ++i) {
    RTX_TRY(int64_t offset, tuple_offset(indices, i, length, data.extents, batch_dims));
    copy_block(out[0], i * block, data, i / tuples * per_batch + offset, block);
  }
  return out;
}

double combine(int64_t reduction, double old, double update) {
  switch (reduction) {
    case 1: return old + update;
    case 2: return old * update;
    case 3: return std::isnan(old) || old > update ? old : update;
    case 4: return std::isnan(old) || old < update ? old : update;
    default: return update;
  }
}

int64_t combine(ir::DType dtype, int64_t reduction, int64_t old, int64_t update) {
  const auto x = static_cast<uint64_t>(old);
  const auto y = static_cast<uint64_t>(update);
  const bool below = dtype == ir::DType::u64 ? x < y : old < update;
  switch (reduction) {
    case 1: return wrap(dtype, static_cast<int64_t>(x + y));
    case 2: return wrap(dtype, static_cast<int64_t>(x * y));
    case 3: return below ? update : old;
    case 4: return below ? old : update;
    default: return update;
  }
}

Result<Results> scatter_nd(const Call& call) {
  const RefTensor& indices = call.input(1);
  const RefTensor& updates = call.input(2);
  Results out{call.input(0)};
  RefTensor& data = out[0];
  const int64_t reduction = call.integer("reduction");
  const int64_t length = indices.extents.back();
  const int64_t tuples = product(indices.extents, 0, indices.extents.size() - 1);
  const int64_t block = product(data.extents, static_cast<size_t>(length), data.extents.size());
  for (int64_t i = 0; i < tuples; ++i) {
    RTX_TRY(int64_t offset, tuple_offset(indices, i, length, data.extents, 0));
    for (int64_t b = 0; b < block; ++b) {
      const auto to = static_cast<size_t>(offset + b);
      const auto from = static_cast<size_t>(i * block + b);
      if (data.floating()) data.reals[to] = combine(reduction, data.reals[to], updates.reals[from]);
      else data.integers[to] = combine(data.dtype, reduction, data.integers[to], updates.integers[from]);
    }
  }
  return out;
}

Result<Results> tensor_scatter(const Call& call) {
  Results out{call.input(0)};
  RefTensor& cache = out[0];
  const RefTensor& fresh = call.input(1);
  const RefTensor& start = call.input(2);
  const auto axis = static_cast<size_t>(call.integer("axis"));
  const int64_t outer = product(cache.extents, 1, axis), room = cache.extents[axis], rows = fresh.extents[axis];
  const int64_t block = product(cache.extents, axis + 1, cache.extents.size());
  for (int64_t b = 0; b < cache.extents[0]; ++b) {
    const int64_t first = start.integers[static_cast<size_t>(b)];
    for (int64_t o = b * outer; o < (b + 1) * outer; ++o)
      for (int64_t s = 0; s < rows; ++s) {
        int64_t row = first + s;
        if (call.integer("circular") != 0) row = ((row % room) + room) % room;
        if (row < 0 || row >= room) return user_error("index is out of range", "row " + std::to_string(row) + " is outside [0, " + std::to_string(room - 1) + "]");
        copy_block(cache, (o * room + row) * block, fresh, (o * rows + s) * block, block);
      }
  }
  return out;
}

}  // namespace

Result<Results> evaluate_gather(const Call& call) {
  switch (call.node.op) {
    case Op::gather: return gather(call);
    case Op::gather_nd: return gather_nd(call);
    case Op::scatter_nd: return scatter_nd(call);
    case Op::tensor_scatter: return tensor_scatter(call);
    default: return error_of(ErrorKind::internal, "operator without an evaluator");
  }
}

}  // namespace rtx::reference

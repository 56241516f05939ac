// Operators that read or write at indices, and triangles.
#include "import/operators.h"

namespace rtx::import {
namespace {

void gather_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const int64_t axis = l.axis(l.integer("axis", 0), l.rank(x));
  if (l.is_constant(l.in(1))) {  // no input can make it right
    const ir::HostTensor indices = l.tensor(1, "indices");
    const int64_t size = l.shape(x)[static_cast<size_t>(axis)];
    for (int64_t i = 0; i < indices.count(); ++i)
      if (const int64_t index = indices.get_int(i); index < -size || index >= size)
        unsupported("index " + std::to_string(index) + " reads outside a dimension of " +
                    std::to_string(size));
  }
  l.out(0, l.gather(x, l.in(1), axis));
}

void gather_nd_operator(Lowering& l) {
  l.out(0, l.node_of(Op::gather_nd, {l.in(0), l.in(1)}, attrs({{"batch_dims", l.integer("batch_dims", 0)}})));
}

void scatter_nd_operator(Lowering& l) {
  const std::string given = l.text("reduction", "none");
  int64_t reduction = -1;
  int64_t code = 0;
  for (const char* name : {"none", "add", "mul", "max", "min"}) {
    if (given == name) reduction = code;
    ++code;
  }
  if (reduction < 0) fail("reduction '" + given + "' is not known");
  l.out(0, l.node_of(Op::scatter_nd, {l.in(0), l.in(1), l.in(2)}, attrs({{"reduction", reduction}})));
}

void trilu_operator(Lowering& l) {
  int64_t k = 0;
  if (l.has(1)) {
    const Extents given = l.ints(1, "k");
    if (given.size() != 1) fail("k has " + std::to_string(given.size()) + " elements, expected one");
    k = given[0];
  }
  const int64_t upper = l.integer("upper", 1) != 0 ? 1 : 0;
  l.out(0, l.node_of(Op::trilu, {l.in(0)}, attrs({{"upper", upper}, {"k", k}})));
}

// One row of indices against 0, 1, ... along a new axis.
void one_hot_operator(Lowering& l) {
  const ir::HostTensor depth_tensor = l.tensor(1, "depth");
  if (depth_tensor.count() != 1)
    fail("depth has " + std::to_string(depth_tensor.count()) + " elements, expected one");
  l.need_rank(l.in(2), 1, "values");
  const double given = depth_tensor.get_double(0);
  if (!(given >= 0 && given <= static_cast<double>(1 << 24))) fail("depth is " + std::to_string(given));
  const auto depth = static_cast<int64_t>(given);
  const int64_t rank = l.rank(l.in(0)) + 1;
  const auto axis = static_cast<size_t>(l.axis(l.integer("axis", -1), rank));
  const ValueId indices = l.cast(l.in(0), DType::i64);
  const ValueId wrapped =
      l.where(l.binary(Op::less, indices, l.scalar(DType::i64, 0)),
              l.binary(Op::add, indices, l.scalar(DType::i64, static_cast<double>(depth))), indices);
  Extents column = l.shape(indices);
  column.insert(column.begin() + static_cast<int64_t>(axis), 1);
  Extents row(static_cast<size_t>(rank), 1);
  row[axis] = depth;
  const ValueId hit = l.binary(Op::equal, l.reshape(wrapped, column), l.iota(DType::i64, depth, row));
  const ValueId off = l.reshape(l.slice_axis(l.in(2), 0, 0, 1), {});
  const ValueId on = l.reshape(l.slice_axis(l.in(2), 0, 1, 1), {});
  l.out(0, l.where(hit, on, off));
}

}  // namespace

OperatorRows index_operators() {
  return {
      {"Gather", gather_operator},           {"GatherND", gather_nd_operator},
      {"ScatterND", scatter_nd_operator},    {"Trilu", trilu_operator, 1u << 1},
      {"OneHot", one_hot_operator, 1u << 1},
  };
}

}  // namespace rtx::import

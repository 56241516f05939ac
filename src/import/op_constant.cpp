// Operators whose result is known at import, and If, whose condition must be.
#include <algorithm>
#include <cmath>

#include "import/element_type.h"
#include "import/operators.h"

namespace rtx::import {
namespace {

void constant_operator(Lowering& l) {
  if (const auto* value = l.attribute("value")) {
    if (!value->has_t()) fail("attribute value is not a tensor");
    return l.out(0, l.constant(l.importer().tensor(value->t())));
  }
  if (l.attribute("value_float")) return l.out(0, l.scalar(DType::f32, l.real("value_float", 0)));
  if (const auto* value = l.attribute("value_floats")) {
    ir::HostTensor tensor(DType::f32, {value->floats_size()});
    for (int i = 0; i < value->floats_size(); ++i)
      tensor.set_double(i, static_cast<double>(value->floats(i)));
    return l.out(0, l.constant(std::move(tensor)));
  }
  if (l.attribute("value_int"))
    return l.out(0, l.constant(ir::HostTensor::from_ints({l.integer("value_int", 0)}).reshaped({})));
  if (const auto value = l.integers("value_ints"))
    return l.out(0, l.constant(ir::HostTensor::from_ints(*value)));
  for (const char* name : {"value_string", "value_strings", "sparse_value"})
    if (l.attribute(name)) unsupported(std::string("its value is given as ") + name);
  fail("it holds no value");
}

void shape_operator(Lowering& l) {
  const Extents extents = l.shape(l.in(0));
  const auto rank = static_cast<int64_t>(extents.size());
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = place(l.integer("start", 0));
  const int64_t end = std::max(start, l.attribute("end") ? place(l.integer("end", rank)) : rank);
  l.out(0, l.constant(ir::HostTensor::from_ints(Extents(extents.begin() + start, extents.begin() + end))));
}

void size_operator(Lowering& l) {
  l.out(0, l.constant(ir::HostTensor::from_ints({product(l.shape(l.in(0)))}).reshaped({})));
}

void constant_of_shape_operator(Lowering& l) {
  const Extents extents = l.ints(0, "shape");
  for (int64_t extent : extents)
    if (extent < 0) fail("the shape " + ir::text(extents) + " has a negative dimension");
  ir::HostTensor value = ir::HostTensor::scalar(DType::f32, 0);
  if (const auto* given = l.attribute("value")) {
    value = l.importer().tensor(given->t());
    if (value.count() != 1)
      fail("its value has " + std::to_string(value.count()) + " elements, expected one");
    value = value.reshaped({});
  }
  l.out(0, l.expand(l.constant(std::move(value)), extents));
}

void range_operator(Lowering& l) {
  const ir::HostTensor start = l.tensor(0, "start");
  const ir::HostTensor limit = l.tensor(1, "limit");
  const ir::HostTensor delta = l.tensor(2, "delta");
  if (start.count() != 1 || limit.count() != 1 || delta.count() != 1)
    fail("start, limit and delta are scalars");
  if (start.dtype() != limit.dtype() || start.dtype() != delta.dtype())
    fail("start, limit and delta have different element types");
  double count = 0;
  if (ir::is_integer(start.dtype())) {
    const __int128 span = static_cast<__int128>(limit.get_int(0)) - start.get_int(0);
    const __int128 step = delta.get_int(0);
    if (step == 0) fail("delta is 0");
    count = span == 0 || (span > 0) != (step > 0)
                ? 0
                : static_cast<double>((span + step + (step > 0 ? -1 : 1)) / step);
  } else {
    count = std::ceil((limit.get_double(0) - start.get_double(0)) / delta.get_double(0));
  }
  if (!(count <= static_cast<double>(kLongestCount)))
    fail("it counts more than " + std::to_string(kLongestCount) + " steps");
  ir::HostTensor out(start.dtype(), {static_cast<int64_t>(std::max(count, 0.0))});
  for (int64_t i = 0; i < out.count(); ++i) {
    if (ir::is_integer(start.dtype()))
      out.set_int(i,
                  static_cast<int64_t>(static_cast<uint64_t>(start.get_int(0)) +
                                       static_cast<uint64_t>(i) * static_cast<uint64_t>(delta.get_int(0))));
    else
      out.set_double(i, start.get_double(0) + static_cast<double>(i) * delta.get_double(0));
  }
  l.out(0, l.constant(std::move(out)));
}

void eye_like_operator(Lowering& l) {
  const Extents extents = l.shape(l.in(0));
  if (extents.size() != 2) fail("the input has shape " + ir::text(extents) + ", expected two dimensions");
  const auto code = static_cast<int32_t>(l.integer("dtype", 0));
  const auto dtype = code == 0 ? std::optional<DType>(l.dtype(l.in(0))) : dtype_from_onnx(code);
  if (!dtype) unsupported("its element type is " + onnx_dtype_name(code));
  if (product(extents) > (int64_t{1} << 26)) unsupported("its result is too large to be a constant");
  ir::HostTensor out(*dtype, extents);
  const int64_t k = std::clamp<int64_t>(l.integer("k", 0), -extents[0], extents[1]);
  for (int64_t row = 0; row < extents[0]; ++row)
    if (row + k >= 0 && row + k < extents[1]) out.set_int(row * extents[1] + row + k, 1);
  l.out(0, l.constant(std::move(out)));
}

// Positions of what is not zero, one column each: only of a value known at import, since its shape depends on
// the data.
void non_zero_operator(Lowering& l) {
  const ir::HostTensor x = l.tensor(0, "the input");
  const Extents strides = ir::row_major_strides(x.extents());
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.count(); ++i)
    if (x.get_double(i) != 0) found.push_back(i);
  const auto columns = static_cast<int64_t>(found.size());
  ir::HostTensor out(DType::i64, {static_cast<int64_t>(x.extents().size()), columns});
  for (size_t axis = 0; axis < x.extents().size(); ++axis)
    for (int64_t i = 0; i < columns; ++i)
      out.set_int(static_cast<int64_t>(axis) * columns + i,
                  found[static_cast<size_t>(i)] / strides[axis] % x.extents()[axis]);
  l.out(0, l.constant(std::move(out)));
}

// The branch that the condition picks stands in for the node; without a known condition there is no static
// graph.
void if_operator(Lowering& l) {
  if (!l.is_constant(l.in(0))) unsupported("its condition is computed at run time");
  const ir::HostTensor condition = l.tensor(0, "the condition");
  if (condition.count() != 1)
    fail("the condition has " + std::to_string(condition.count()) + " elements, expected one");
  const char* name = condition.get_int(0) != 0 ? "then_branch" : "else_branch";
  const auto* branch = l.attribute(name);
  if (branch == nullptr || !branch->has_g()) fail(std::string("attribute ") + name + " is missing");
  if (branch->g().output_size() < l.output_count()) fail("the branch has fewer outputs than the node");
  Scope inner;
  inner.parent = &l.scope();
  inner.opsets = l.scope().opsets;
  inner.prefix = l.scope().prefix + node_name(l.node()) + "/";
  l.importer().walk(branch->g(), inner, l.depth() + 1);
  for (int i = 0; i < l.output_count(); ++i)
    if (l.wants(i)) l.out(i, l.importer().lookup(inner, branch->g().output(i).name()));
}

}  // namespace

OperatorRows constant_operators() {
  return {
      {"Constant", constant_operator},
      {"Shape", shape_operator},
      {"Size", size_operator},
      {"ConstantOfShape", constant_of_shape_operator, 1u << 0},
      {"Range", range_operator, 1u << 0 | 1u << 1 | 1u << 2},
      {"EyeLike", eye_like_operator},
      {"NonZero", non_zero_operator, 1u << 0},
      {"If", if_operator, 1u << 0},
  };
}

}  // namespace rtx::import

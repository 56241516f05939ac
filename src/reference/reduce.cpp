#include <cmath>
#include <limits>

#include "reference/evaluator.h"
#include "reference/index.h"

namespace rtx::reference {
namespace {

using ir::Op;

// Strides of the output in the input's index space: 0 along the reduced axes.
Extents output_strides(const Extents& extents, const std::vector<int64_t>& axes) {
  Extents kept = extents;
  for (int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
  Extents strides = ir::row_major_strides(kept);
  for (int64_t axis : axes) strides[static_cast<size_t>(axis)] = 0;
  return strides;
}

int64_t reduced_count(const Extents& extents, const std::vector<int64_t>& axes) {
  int64_t out = 1;
  for (int64_t axis : axes) out *= extents[static_cast<size_t>(axis)];
  return out;
}

// The value a maximum (or minimum) of nothing has.
int64_t limit(ir::DType dtype, bool lowest) {
  switch (dtype) {
    case ir::DType::boolean: return !lowest;
    case ir::DType::u64: return lowest ? 0 : -1;
    case ir::DType::i64: return lowest ? INT64_MIN : INT64_MAX;
    default: break;
  }
  const int bits = ir::info(dtype).bits;
  if (ir::info(dtype).kind == ir::DTypeKind::unsigned_integer) return lowest ? 0 : (int64_t{1} << bits) - 1;
  return lowest ? -(int64_t{1} << (bits - 1)) : (int64_t{1} << (bits - 1)) - 1;
}

RefTensor reduce_reals(const Call& call, const std::vector<int64_t>& axes) {
  const RefTensor& x = call.input(0);
  const Op op = call.node.op;
  RefTensor out = make(call);
  const std::array<Extents, 1> strides{output_strides(x.extents, axes)};
  if (op == Op::reduce_max || op == Op::reduce_min) {
    const double infinity = std::numeric_limits<double>::infinity();
    const bool largest = op == Op::reduce_max;
    std::fill(out.reals.begin(), out.reals.end(), largest ? -infinity : infinity);
    walk(x.extents, strides, [&](int64_t i, const std::array<int64_t, 1>& at) {
      double& best = out.reals[static_cast<size_t>(at[0])];
      const double value = x.reals[static_cast<size_t>(i)];
      if (std::isnan(value) || (largest ? value > best : value < best)) best = value;  // once NaN, no comparison replaces it
    });
    return out;
  }
  // Wider than double: the oracle's own rounding stays far below that of a double kernel.
  std::vector<long double> sums(out.reals.size(), 0.0L);
  walk(x.extents, strides, [&](int64_t i, const std::array<int64_t, 1>& at) { sums[static_cast<size_t>(at[0])] += x.reals[static_cast<size_t>(i)]; });
  const auto divisor = op == Op::reduce_mean ? static_cast<long double>(reduced_count(x.extents, axes)) : 1.0L;
  for (size_t i = 0; i < sums.size(); ++i) out.reals[i] = static_cast<double>(sums[i] / divisor);
  return out;
}

RefTensor reduce_integers(const Call& call, const std::vector<int64_t>& axes) {
  const RefTensor& x = call.input(0);
  const Op op = call.node.op;
  RefTensor out = make(call);
  const bool is_unsigned = x.dtype == ir::DType::u64;
  const bool largest = op == Op::reduce_max;
  const bool sums = op == Op::reduce_sum || op == Op::reduce_mean;
  if (!sums) std::fill(out.integers.begin(), out.integers.end(), limit(x.dtype, largest));
  walk(x.extents, std::array<Extents, 1>{output_strides(x.extents, axes)}, [&](int64_t i, const std::array<int64_t, 1>& at) {
    int64_t& so_far = out.integers[static_cast<size_t>(at[0])];
    const int64_t value = x.integers[static_cast<size_t>(i)];
    if (sums) {
      so_far = static_cast<int64_t>(static_cast<uint64_t>(so_far) + static_cast<uint64_t>(value));
      return;
    }
    const bool below = is_unsigned ? static_cast<uint64_t>(so_far) < static_cast<uint64_t>(value) : so_far < value;
    if (below == largest) so_far = value;
  });
  if (op == Op::reduce_mean) {
    const int64_t count = reduced_count(x.extents, axes);
    for (auto& sum : out.integers) {
      if (count == 0) sum = 0;
      else sum = is_unsigned ? static_cast<int64_t>(static_cast<uint64_t>(sum) / static_cast<uint64_t>(count)) : sum / count;
    }
  }
  wrap_all(out);
  return out;
}

// Calls step(from, to) along every row of the axis, in the order in which the sum runs.
template <class Start, class Step>
void scan(const Call& call, const Start& start, const Step& step) {
  const Extents& extents = call.input(0).extents;
  const auto axis = static_cast<size_t>(call.integer("axis"));
  const int64_t size = extents[axis], inner = product(extents, axis + 1, extents.size()), rows = product(extents, 0, axis) * inner;
  const bool reverse = call.integer("reverse") != 0;
  for (int64_t row = 0; row < rows; ++row) {
    start();
    for (int64_t i = 0; i < size; ++i)
      step(static_cast<size_t>(row / inner * size * inner + row % inner + (reverse ? size - 1 - i : i) * inner));
  }
}

}  // namespace

// An exclusive sum is what there was before the element, never the difference: inf - inf would be NaN.
Result<Results> evaluate_scan(const Call& call) {
  const RefTensor& x = call.input(0);
  const bool exclusive = call.integer("exclusive") != 0;
  Results out;
  out.push_back(make(call));
  if (x.floating()) {
    long double sum = 0;
    scan(call, [&] { sum = 0; }, [&](size_t at) {
      if (exclusive) out[0].reals[at] = static_cast<double>(sum);
      sum += x.reals[at];
      if (!exclusive) out[0].reals[at] = static_cast<double>(sum);
    });
    return out;
  }
  uint64_t sum = 0;
  scan(call, [&] { sum = 0; }, [&](size_t at) {
    if (exclusive) out[0].integers[at] = static_cast<int64_t>(sum);
    sum += static_cast<uint64_t>(x.integers[at]);
    if (!exclusive) out[0].integers[at] = static_cast<int64_t>(sum);
  });
  wrap_all(out[0]);
  return out;
}

Result<Results> evaluate_reduction(const Call& call) {
  const auto axes = call.node.attributes.integers("axes");
  Results out;
  out.push_back(call.input(0).floating() ? reduce_reals(call, axes) : reduce_integers(call, axes));
  return out;
}

}  // namespace rtx::reference

#include "reference/evaluator.h"
#include "reference/index.h"

namespace rtx::reference {
namespace {

using ir::Op;

// out[i] = from[offset of i] under strides that may be negative or 0.
RefTensor strided(const Call& call, const RefTensor& from, int64_t start, const Extents& strides) {
  RefTensor out = make(call);
  walk(out.extents, std::array<Extents, 1>{strides}, [&](int64_t i, const std::array<int64_t, 1>& at) {
    const auto source = static_cast<size_t>(start + at[0]);
    if (out.floating()) out.reals[static_cast<size_t>(i)] = from.reals[source];
    else out.integers[static_cast<size_t>(i)] = from.integers[source];
  });
  return out;
}

RefTensor reshape(const Call& call) {
  RefTensor out = call.input(0);
  out.extents = call.extents();
  return out;
}

RefTensor transpose(const Call& call) {
  const Extents own = ir::row_major_strides(call.input(0).extents);
  Extents strides;
  for (int64_t axis : call.node.attributes.integers("perm")) strides.push_back(own[static_cast<size_t>(axis)]);
  return strided(call, call.input(0), 0, strides);
}

RefTensor slice(const Call& call) {
  const Extents own = ir::row_major_strides(call.input(0).extents);
  const auto starts = call.node.attributes.integers("starts");
  const auto steps = call.node.attributes.integers("steps");
  RefTensor empty = make(call);
  if (empty.count() == 0) return empty;
  Extents strides(own.size());
  int64_t start = 0;
  for (size_t d = 0; d < own.size(); ++d) {
    // A step past the dimension is harmless where there is one element, but its product may not fit.
    strides[d] = call.extents()[d] > 1 ? own[d] * steps[d] : 0;
    start += own[d] * starts[d];
  }
  return strided(call, call.input(0), start, strides);
}

template <class T>
void join(std::vector<T>& out, const std::vector<T>& part, int64_t outer, int64_t block, int64_t at, int64_t row) {
  for (int64_t o = 0; o < outer; ++o) {
    std::copy(part.begin() + o * block, part.begin() + (o + 1) * block, out.begin() + o * row + at);
  }
}

RefTensor concat(const Call& call) {
  RefTensor out = make(call);
  const auto axis = static_cast<size_t>(call.integer("axis"));
  const int64_t outer = product(out.extents, 0, axis);
  const int64_t row = product(out.extents, axis, out.extents.size());
  int64_t at = 0;
  for (const RefTensor* part : call.inputs) {
    const int64_t block = product(part->extents, axis, part->extents.size());
    if (out.floating()) join(out.reals, part->reals, outer, block, at, row);
    else join(out.integers, part->integers, outer, block, at, row);
    at += block;
  }
  return out;
}

RefTensor trilu(const Call& call) {
  RefTensor out = call.input(0);
  const bool upper = call.integer("upper") != 0;
  const int64_t diagonal = call.integer("k");
  const int64_t rows = out.extents[out.extents.size() - 2];
  const int64_t columns = out.extents.back();
  for (int64_t i = 0; i < out.count(); ++i) {
    const int64_t distance = i % columns - i / columns % rows;
    if (upper ? distance >= diagonal : distance <= diagonal) continue;
    if (out.floating()) out.reals[static_cast<size_t>(i)] = 0;
    else out.integers[static_cast<size_t>(i)] = 0;
  }
  return out;
}

}  // namespace

Result<Results> evaluate_movement(const Call& call) {
  Results out;
  switch (call.node.op) {
    case Op::reshape: out.push_back(reshape(call)); break;
    case Op::transpose: out.push_back(transpose(call)); break;
    case Op::slice: out.push_back(slice(call)); break;
    case Op::expand: out.push_back(strided(call, call.input(0), 0, broadcast_strides(call.input(0).extents, call.extents()))); break;
    case Op::concat: out.push_back(concat(call)); break;
    case Op::trilu: out.push_back(trilu(call)); break;
    default: return evaluate_gather(call);
  }
  return out;
}

// x [B,H,S,D], cos and sin [B|1,S,R/2]: the pair (x1, x2) becomes (x1 cos - x2 sin, x1 sin + x2 cos); pairs are neighbours when
// interleaved, else the two halves of the first R columns.
Result<Results> evaluate_rotary(const Call& call) {
  const RefTensor& x = call.input(0);
  const RefTensor& cosine = call.input(1);
  const RefTensor& sine = call.input(2);
  Results out{x};
  const int64_t pairs = call.integer("rotary_dim") / 2;
  const bool interleaved = call.integer("interleaved") != 0;
  const int64_t heads = x.extents[1];
  const int64_t length = x.extents[2];
  const int64_t columns = x.extents[3];
  const int64_t batch_stride = cosine.extents[0] == 1 ? 0 : length * pairs;
  for (int64_t row = 0; row < x.extents[0] * heads * length; ++row) {
    const int64_t angles = row / (heads * length) * batch_stride + row % length * pairs;
    for (int64_t p = 0; p < pairs; ++p) {
      const auto first = static_cast<size_t>(row * columns + (interleaved ? 2 * p : p));
      const auto second = static_cast<size_t>(row * columns + (interleaved ? 2 * p + 1 : p + pairs));
      const double c = cosine.reals[static_cast<size_t>(angles + p)];
      const double s = sine.reals[static_cast<size_t>(angles + p)];
      out[0].reals[first] = x.reals[first] * c - x.reals[second] * s;
      out[0].reals[second] = x.reals[first] * s + x.reals[second] * c;
    }
  }
  return out;
}

}  // namespace rtx::reference

// Row operators: softmax, log_softmax, layer_norm, rms_norm. Sums are wider than double; variance takes two passes.
#include <cmath>
#include <limits>

#include "reference/evaluator.h"
#include "reference/index.h"

namespace rtx::reference {
namespace {

using ir::Op;

// A row of all -inf gives NaN: -inf - -inf is not a number, and nothing hides it.
RefTensor softmax(const Call& call, bool logarithm) {
  RefTensor out = call.input(0);
  const auto axis = static_cast<size_t>(call.integer("axis"));
  const int64_t outer = product(out.extents, 0, axis);
  const int64_t size = out.extents[axis];
  const int64_t inner = product(out.extents, axis + 1, out.extents.size());
  in_parallel(outer, call.threads, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * inner; row < end * inner; ++row) {
      double* x = out.reals.data() + row / inner * size * inner + row % inner;
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t i = 0; i < size; ++i) {
        if (std::isnan(x[i * inner]) || x[i * inner] > largest) largest = x[i * inner];
      }
      long double sum = 0;
      for (int64_t i = 0; i < size; ++i) sum += std::exp(x[i * inner] - largest);
      const auto total = static_cast<double>(sum);
      const double log_total = std::log(total);
      for (int64_t i = 0; i < size; ++i) {
        x[i * inner] = logarithm ? x[i * inner] - largest - log_total : std::exp(x[i * inner] - largest) / total;
      }
    }
  });
  return out;
}

// Offsets of an affine input's elements in a row of the normalised axes; empty when it is absent.
std::vector<int64_t> affine_offsets(const Call& call, size_t i, const Extents& trailing) {
  std::vector<int64_t> offsets;
  if (!call.has(i)) return offsets;
  walk(trailing, std::array<Extents, 1>{broadcast_strides(call.input(i).extents, trailing)},
       [&](int64_t, const std::array<int64_t, 1>& at) { offsets.push_back(at[0]); });
  return offsets;
}

Results norm(const Call& call, bool centred) {
  const RefTensor& x = call.input(0);
  const auto axis = static_cast<size_t>(call.integer("axis"));
  const Extents trailing(x.extents.begin() + static_cast<int64_t>(axis), x.extents.end());
  const int64_t rows = product(x.extents, 0, axis);
  const int64_t size = product(x.extents, axis, x.extents.size());
  const double epsilon = call.node.attributes.real("epsilon", 1e-5);
  const auto scale = affine_offsets(call, 1, trailing);
  const auto bias = affine_offsets(call, 2, trailing);
  Results out;
  for (size_t i = 0; i < call.outputs.size(); ++i) out.push_back(make(call, i));
  in_parallel(rows, call.threads, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const double* from = x.reals.data() + row * size;
      double* to = out[0].reals.data() + row * size;
      long double sum = 0;
      for (int64_t i = 0; centred && i < size; ++i) sum += from[i];
      const auto mean = centred ? static_cast<double>(sum / static_cast<long double>(size)) : 0.0;
      long double squares = 0;
      for (int64_t i = 0; i < size; ++i) squares += static_cast<long double>(from[i] - mean) * (from[i] - mean);
      const auto variance = static_cast<double>(squares / static_cast<long double>(size));
      const double inverse = 1 / std::sqrt(variance + epsilon);
      for (int64_t i = 0; i < size; ++i) {
        const auto at = static_cast<size_t>(i);
        double y = (from[i] - mean) * inverse;
        if (!scale.empty()) y *= call.input(1).reals[static_cast<size_t>(scale[at])];
        if (!bias.empty()) y += call.input(2).reals[static_cast<size_t>(bias[at])];
        to[i] = y;
      }
      if (out.size() > 1) out[1].reals[static_cast<size_t>(row)] = mean;
      if (out.size() > 2) out[2].reals[static_cast<size_t>(row)] = inverse;
    }
  });
  return out;
}

}  // namespace

Result<Results> evaluate_normalization(const Call& call) {
  switch (call.node.op) {
    case Op::layer_norm: return norm(call, true);
    case Op::rms_norm: return norm(call, false);
    default: {
      Results out;
      out.push_back(softmax(call, call.node.op == Op::log_softmax));
      return out;
    }
  }
}

}  // namespace rtx::reference

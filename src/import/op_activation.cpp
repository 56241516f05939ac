// Activation functions.
#include <limits>

#include "import/operators.h"

namespace rtx::import {
namespace {

ValueId gelu_of(Lowering& l, ValueId x, bool by_tanh) {
  return l.node_of(Op::gelu, {x}, attrs({{"tanh", int64_t{by_tanh}}}));
}

ValueId silu_of(Lowering& l, ValueId x, double alpha) {
  return l.node_of(Op::silu, {x}, attrs({{"alpha", alpha}}));
}

void gelu_operator(Lowering& l) {
  const std::string form = l.text("approximate", "none");
  if (form != "none" && form != "tanh") fail("approximate is '" + form + "', expected none or tanh");
  l.out(0, gelu_of(l, l.in(0), form == "tanh"));
}

// com.microsoft: Gelu and BiasGelu by erf, FastGelu by tanh, each with an optional bias.
template <bool by_tanh>
void biased_gelu_operator(Lowering& l) {
  const ValueId x = l.has(1) ? l.binary(Op::add, l.in(0), l.in(1)) : l.in(0);
  l.out(0, gelu_of(l, x, by_tanh));
}

void swish_operator(Lowering& l) { l.out(0, silu_of(l, l.in(0), l.real("alpha", 1.0))); }

void quick_gelu_operator(Lowering& l) { l.out(0, silu_of(l, l.in(0), l.real("alpha", 1.702F))); }

ValueId hard_sigmoid_of(Lowering& l, ValueId x, double alpha, double beta) {
  const ValueId line =
      l.binary(Op::add, l.binary(Op::mul, x, l.scalar_like(x, alpha)), l.scalar_like(x, beta));
  return l.binary(Op::min, l.binary(Op::max, line, l.scalar_like(x, 0)), l.scalar_like(x, 1));
}

void hard_sigmoid_operator(Lowering& l) {
  l.out(0, hard_sigmoid_of(l, l.in(0), l.real("alpha", 0.2F), l.real("beta", 0.5F)));
}

void hard_swish_operator(Lowering& l) {
  l.out(0, l.binary(Op::mul, l.in(0), hard_sigmoid_of(l, l.in(0), 1.0 / 6.0, 0.5)));
}

// x where it is positive, `negative` elsewhere.
ValueId positive_or(Lowering& l, ValueId x, ValueId negative) {
  return l.where(l.binary(Op::less, x, l.scalar_like(x, 0)), negative, x);
}

void leaky_relu_operator(Lowering& l) {
  const ValueId x = l.in(0);
  l.out(0, positive_or(l, x, l.binary(Op::mul, x, l.scalar_like(x, l.real("alpha", 0.01F)))));
}

void prelu_operator(Lowering& l) {
  const ValueId x = l.in(0);
  ValueId slope = l.in(1);
  // Before version 7 a vector of slopes belonged to axis 1.
  if (l.version() < 7 && l.rank(slope) == 1 && l.rank(x) > 2) {
    Extents extents(static_cast<size_t>(l.rank(x) - 1), 1);
    extents[0] = l.shape(slope)[0];
    slope = l.reshape(slope, extents);
  }
  l.out(0, positive_or(l, x, l.binary(Op::mul, x, slope)));
}

// scale * (exp(x / width) - 1) on the negative side, of min(x, 0) so that exp cannot overflow where it is not
// taken.
ValueId exponential_tail(Lowering& l, ValueId x, double scale, double width) {
  const ValueId below = l.binary(Op::min, x, l.scalar_like(x, 0));
  const ValueId grown =
      l.unary(Op::exp, width == 1 ? below : l.binary(Op::div, below, l.scalar_like(x, width)));
  return l.binary(Op::mul, l.binary(Op::sub, grown, l.scalar_like(x, 1)), l.scalar_like(x, scale));
}

void elu_operator(Lowering& l) {
  l.out(0, positive_or(l, l.in(0), exponential_tail(l, l.in(0), l.real("alpha", 1.0), 1)));
}

// max(0, x) + min(0, tail): of the whole x, so that alpha = 0 gives the NaN the formula gives.
void celu_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const ValueId alpha = l.scalar_like(x, l.real("alpha", 1.0));
  const ValueId tail = l.binary(
      Op::mul, alpha, l.binary(Op::sub, l.unary(Op::exp, l.binary(Op::div, x, alpha)), l.scalar_like(x, 1)));
  l.out(0, l.binary(Op::add, l.unary(Op::relu, x), l.binary(Op::min, tail, l.scalar_like(x, 0))));
}

void selu_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const ValueId bent =
      positive_or(l, x, exponential_tail(l, x, l.real("alpha", 1.67326319217681884765625), 1));
  l.out(0, l.binary(Op::mul, bent, l.scalar_like(x, l.real("gamma", 1.05070102214813232421875))));
}

// log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)).
ValueId softplus_of(Lowering& l, ValueId x) {
  const ValueId rest = l.unary(Op::exp, l.unary(Op::neg, l.unary(Op::abs, x)));
  return l.binary(Op::add, l.unary(Op::relu, x),
                  l.unary(Op::log, l.binary(Op::add, rest, l.scalar_like(x, 1))));
}

void softplus_operator(Lowering& l) { l.out(0, softplus_of(l, l.in(0))); }

void softsign_operator(Lowering& l) {
  const ValueId x = l.in(0);
  l.out(0, l.binary(Op::div, x, l.binary(Op::add, l.unary(Op::abs, x), l.scalar_like(x, 1))));
}

void mish_operator(Lowering& l) {
  l.out(0, l.binary(Op::mul, l.in(0), l.unary(Op::tanh, softplus_of(l, l.in(0)))));
}

void thresholded_relu_operator(Lowering& l) {
  const ValueId x = l.in(0);
  l.out(0, l.where(l.binary(Op::greater, x, l.scalar_like(x, l.real("alpha", 1.0))), x, l.scalar_like(x, 0)));
}

void shrink_operator(Lowering& l) {
  const DType dtype = l.dtype(l.in(0));
  const ValueId x = ir::is_floating(dtype) ? l.in(0) : l.cast(l.in(0), DType::f32);
  const double lambda = l.real("lambd", 0.5);
  const ValueId bias = l.scalar_like(x, l.real("bias", 0));
  const ValueId above = l.where(l.binary(Op::greater, x, l.scalar_like(x, lambda)),
                                l.binary(Op::sub, x, bias), l.scalar_like(x, 0));
  l.out(0,
        l.cast(l.where(l.binary(Op::less, x, l.scalar_like(x, -lambda)), l.binary(Op::add, x, bias), above),
               dtype));
}

}  // namespace

OperatorRows activation_operators() {
  return {
      {"Gelu", gelu_operator},
      {"Swish", swish_operator},
      {"com.microsoft::Gelu", biased_gelu_operator<false>},
      {"com.microsoft::BiasGelu", biased_gelu_operator<false>},
      {"com.microsoft::FastGelu", biased_gelu_operator<true>},
      {"com.microsoft::QuickGelu", quick_gelu_operator},
      {"HardSigmoid", hard_sigmoid_operator},
      {"HardSwish", hard_swish_operator},
      {"LeakyRelu", leaky_relu_operator},
      {"PRelu", prelu_operator},
      {"Elu", elu_operator},
      {"Celu", celu_operator},
      {"Selu", selu_operator},
      {"Softplus", softplus_operator},
      {"Softsign", softsign_operator},
      {"Mish", mish_operator},
      {"ThresholdedRelu", thresholded_relu_operator},
      {"Shrink", shrink_operator},
  };
}

}  // namespace rtx::import

// Operators that act element by element.
#include <cstdint>
#include <random>

#include "import/element_type.h"
#include "import/operators.h"

namespace rtx::import {
namespace {

template <Op op>
void unary_operator(Lowering& l) {
  l.out(0, l.unary(op, l.in(0)));
}

// Before version 7 the second operand was aligned at `axis` when `broadcast` was set, and numpy's rule did
// not exist.
ValueId second_operand(Lowering& l) {
  const ValueId b = l.in(1);
  if (l.version() >= 7 || l.integer("broadcast", 0) == 0) return b;
  const int64_t rank = l.rank(l.in(0));
  const int64_t own = l.rank(b);
  if (own > rank) fail("the second operand has more dimensions than the first");
  const int64_t axis = l.attribute("axis") ? l.axis(l.integer("axis", 0), rank) : rank - own;
  if (axis + own > rank) fail("the second operand does not fit behind axis " + std::to_string(axis));
  Extents extents = l.shape(b);
  extents.resize(static_cast<size_t>(rank - axis), 1);
  return l.reshape(b, extents);
}

template <Op op>
void binary_operator(Lowering& l) {
  l.out(0, l.binary(op, l.in(0), second_operand(l)));
}

template <Op op>
void variadic_operator(Lowering& l) {
  ValueId out = l.in(0);
  for (int i = 1; i < l.input_count(); ++i) out = l.binary(op, out, l.in(i));
  l.out(0, out);
}

void mean_operator(Lowering& l) {
  ValueId out = l.in(0);
  for (int i = 1; i < l.input_count(); ++i) out = l.binary(Op::add, out, l.in(i));
  l.out(0, l.binary(Op::div, out, l.scalar_like(out, l.input_count())));
}

// The result has the base's type; mixed operands meet in a type that holds both.
void pow_operator(Lowering& l) {
  const ValueId a = l.in(0);
  const ValueId b = second_operand(l);
  const DType to = l.dtype(a);
  const DType exponent = l.dtype(b);
  if (to == exponent) return l.out(0, l.binary(Op::pow, a, b));
  DType common = DType::f64;
  if (ir::is_integer(to) && ir::is_integer(exponent)) common = DType::i64;
  if (ir::is_floating(to) && to != DType::f64 && exponent != DType::f64) common = DType::f32;
  l.out(0, l.cast(l.binary(Op::pow, l.cast(a, common), l.cast(b, common)), to));
}

// fmod = 0 has the sign of the divisor. For floats it is written out over C's fmod.
void mod_operator(Lowering& l) {
  const ValueId a = l.in(0);
  const ValueId b = l.in(1);
  const int64_t fmod = l.integer("fmod", 0);
  if (fmod != 0 || !ir::is_floating(l.dtype(a)))
    return l.out(0, l.node_of(Op::mod, {a, b}, attrs({{"fmod", fmod != 0 ? int64_t{1} : int64_t{0}}})));
  const ValueId rest = l.node_of(Op::mod, {a, b}, attrs({{"fmod", int64_t{1}}}));
  const ValueId zero = l.scalar_like(a, 0);
  const ValueId differs =
      l.binary(Op::logical_xor, l.binary(Op::less, rest, zero), l.binary(Op::less, b, zero));
  const ValueId wrong =
      l.binary(Op::logical_and, differs, l.unary(Op::logical_not, l.binary(Op::equal, rest, zero)));
  l.out(0, l.where(wrong, l.binary(Op::add, rest, b), rest));
}

void where_operator(Lowering& l) { l.out(0, l.where(l.in(0), l.in(1), l.in(2))); }

DType cast_target(int64_t type) {
  const auto dtype = dtype_from_onnx(static_cast<int32_t>(type));
  if (!dtype) unsupported("it casts to " + onnx_dtype_name(static_cast<int32_t>(type)));
  return *dtype;
}

void cast_operator(Lowering& l) {
  if (l.version() < 6 && l.attribute("to") && l.attribute("to")->has_s()) {
    onnx::TensorProto::DataType type;
    if (!onnx::TensorProto::DataType_Parse(l.text("to", ""), &type))
      fail("'" + l.text("to", "") + "' is no element type");
    return l.out(0, l.cast(l.in(0), cast_target(type)));
  }
  l.out(0, l.cast(l.in(0), cast_target(l.required_integer("to"))));
}

void cast_like_operator(Lowering& l) { l.out(0, l.cast(l.in(0), l.dtype(l.in(1)))); }

ValueId clipped(Lowering& l, ValueId x, ValueId low, ValueId high) {
  if (low != ir::kNoValue) x = l.binary(Op::max, x, l.reshape(low, {}));
  if (high != ir::kNoValue) x = l.binary(Op::min, x, l.reshape(high, {}));
  return x;
}

// Bounds may be absent. The upper one wins where they cross; NaN passes.
void clip_operator(Lowering& l) {
  const ValueId x = l.in(0);
  if (l.version() >= 11) return l.out(0, clipped(l, x, l.in_or_none(1), l.in_or_none(2)));
  const ValueId low = l.attribute("min") ? l.scalar_like(x, l.real("min", 0)) : ir::kNoValue;
  const ValueId high = l.attribute("max") ? l.scalar_like(x, l.real("max", 0)) : ir::kNoValue;
  l.out(0, clipped(l, x, low, high));
}

void sign_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const ValueId zero = l.scalar_like(x, 0);
  const ValueId rest = ir::is_floating(l.dtype(x)) ? l.binary(Op::mul, x, zero) : zero;  // NaN stays NaN
  const DType dtype = l.dtype(x);
  const bool is_unsigned = ir::info(dtype).kind == ir::DTypeKind::unsigned_integer;
  const ValueId negative =
      is_unsigned ? rest : l.where(l.binary(Op::less, x, zero), l.scalar_like(x, -1), rest);
  l.out(0, l.where(l.binary(Op::greater, x, zero), l.scalar_like(x, 1), negative));
}

void is_nan_operator(Lowering& l) {
  l.out(0, l.unary(Op::logical_not, l.binary(Op::equal, l.in(0), l.in(0))));
}

void identity_operator(Lowering& l) { l.out(0, l.in(0)); }

// The mask that a stated seed draws by the standard's reference: uniform doubles of the Mersenne Twister,
// kept from `ratio` on. A constant, since the same seed draws the same mask on every run.
void seeded_dropout(Lowering& l, double ratio, int64_t seed) {
  const ValueId x = l.in(0);
  if (!(ratio > 0 && ratio < 1)) fail("ratio " + std::to_string(ratio) + " is outside [0, 1)");
  if (seed < 0 || seed > UINT32_MAX) unsupported("its seed does not fit 32 bits");
  ir::HostTensor mask(DType::boolean, l.shape(x));
  if (mask.count() > (int64_t{1} << 26)) unsupported("its mask is too large to be a constant");
  std::mt19937 bits(static_cast<uint32_t>(seed));
  for (int64_t i = 0; i < mask.count(); ++i) {
    const double high = static_cast<double>(bits() >> 5);
    const double low = static_cast<double>(bits() >> 6);
    mask.set_int(i, (high * 67108864.0 + low) / 9007199254740992.0 >= ratio);
  }
  const ValueId kept = l.constant(std::move(mask));
  const ValueId grown = l.binary(Op::mul, x, l.scalar_like(x, 1 / (1 - ratio)));
  l.out(0, l.where(kept, grown, l.scalar_like(x, 0)));
  l.out(1, kept);
}

// Inference: the identity, and a mask: of ones from version 12 on, of zeros before, as runtimes gave it then.
// Training without a seed makes the result random.
void dropout_operator(Lowering& l) {
  const ValueId x = l.in(0);
  if (l.version() >= 12 && l.has(2)) {
    const ir::HostTensor training = l.tensor(2, "training_mode");
    if (training.count() > 0 && training.get_int(0) != 0) {
      const ir::HostTensor given = l.has(1) ? l.tensor(1, "ratio") : ir::HostTensor::scalar(DType::f64, 0.5);
      if (given.count() != 1) fail("ratio has " + std::to_string(given.count()) + " elements, expected one");
      const double ratio = given.get_double(0);
      if (ratio != 0 && !l.attribute("seed"))
        unsupported("in training mode without a seed it drops at random");
      if (ratio != 0) return seeded_dropout(l, ratio, l.integer("seed", 0));
    }
  }
  l.out(0, x);
  if (!l.wants(1)) return;
  const DType mask = l.version() >= 10 ? DType::boolean : l.dtype(x);
  l.out(1, l.expand(l.scalar(mask, l.version() >= 12 ? 1 : 0), l.shape(x)));
}

}  // namespace

OperatorRows pointwise_operators() {
  return {
      {"Neg", unary_operator<Op::neg>},
      {"Abs", unary_operator<Op::abs>},
      {"Reciprocal", unary_operator<Op::reciprocal>},
      {"Sqrt", unary_operator<Op::sqrt>},
      {"Exp", unary_operator<Op::exp>},
      {"Log", unary_operator<Op::log>},
      {"Erf", unary_operator<Op::erf>},
      {"Tanh", unary_operator<Op::tanh>},
      {"Sigmoid", unary_operator<Op::sigmoid>},
      {"Relu", unary_operator<Op::relu>},
      {"Not", unary_operator<Op::logical_not>},
      {"Add", binary_operator<Op::add>},
      {"Sub", binary_operator<Op::sub>},
      {"Mul", binary_operator<Op::mul>},
      {"Div", binary_operator<Op::div>},
      {"And", binary_operator<Op::logical_and>},
      {"Or", binary_operator<Op::logical_or>},
      {"Xor", binary_operator<Op::logical_xor>},
      {"Equal", binary_operator<Op::equal>},
      {"Less", binary_operator<Op::less>},
      {"LessOrEqual", binary_operator<Op::less_equal>},
      {"Greater", binary_operator<Op::greater>},
      {"GreaterOrEqual", binary_operator<Op::greater_equal>},
      {"Sum", variadic_operator<Op::add>},
      {"Max", variadic_operator<Op::max>},
      {"Min", variadic_operator<Op::min>},
      {"Mean", mean_operator},
      {"Pow", pow_operator},
      {"Mod", mod_operator},
      {"Where", where_operator},
      {"Cast", cast_operator},
      {"CastLike", cast_like_operator},
      {"Clip", clip_operator},
      {"Sign", sign_operator},
      {"IsNaN", is_nan_operator},
      {"Identity", identity_operator},
      {"Dropout", dropout_operator, 1u << 1 | 1u << 2},
  };
}

}  // namespace rtx::import

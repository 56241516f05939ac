#include <cmath>

#include "reference/evaluator.h"
#include "reference/index.h"

namespace rtx::reference {
namespace {

using ir::Op;

double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

double real_unary(const Call& call, Op op, double x) {
  switch (op) {
    case Op::neg: return -x;
    case Op::abs: return std::fabs(x);
    case Op::reciprocal: return 1 / x;
    case Op::sqrt: return std::sqrt(x);
    case Op::exp: return std::exp(x);
    case Op::log: return std::log(x);
    case Op::erf: return std::erf(x);
    case Op::tanh: return std::tanh(x);
    case Op::sigmoid: return sigmoid(x);
    case Op::relu: return x < 0 ? 0 : x;  // NaN passes
    case Op::silu: return x * sigmoid(call.node.attributes.real("alpha", 1) * x);
    default: return x;
  }
}

// Both forms without the cancellation of 1 + erf(..) and 1 + tanh(..) far to the left.
double gelu_erf(double x) { return 0.5 * x * std::erfc(-x * 0.70710678118654752440); }
double gelu_tanh(double x) { return x * sigmoid(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)); }

int64_t integer_unary(ir::DType dtype, Op op, int64_t x) {
  const bool negative = x < 0 && dtype != ir::DType::u64;
  switch (op) {
    case Op::neg: return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
    case Op::abs: return negative ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x;
    case Op::relu: return negative ? 0 : x;
    case Op::logical_not: return !x;
    default: return x;
  }
}

RefTensor cast(const Call& call) {
  const RefTensor& x = call.input(0);
  RefTensor out = make(call);
  for (size_t i = 0; i < static_cast<size_t>(x.count()); ++i) {
    if (x.floating() && out.floating()) out.reals[i] = x.reals[i];
    else if (x.floating()) out.integers[i] = truncate_real(out.dtype, x.reals[i]);
    else if (out.floating()) out.reals[i] = real_of(x.dtype, x.integers[i]);
    else out.integers[i] = wrap(out.dtype, x.integers[i]);
  }
  return out;
}

RefTensor unary(const Call& call) {
  const Op op = call.node.op;
  if (op == Op::cast) return cast(call);
  RefTensor out = call.input(0);
  if (op == Op::gelu) {
    const bool tanh_form = call.integer("tanh") != 0;
    for (auto& x : out.reals) x = tanh_form ? gelu_tanh(x) : gelu_erf(x);
    return out;
  }
  for (auto& x : out.reals) x = real_unary(call, op, x);
  for (auto& x : out.integers) x = wrap(out.dtype, integer_unary(out.dtype, op, x));
  return out;
}

double real_max(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double real_min(double a, double b) { return std::isnan(a) || a < b ? a : b; }

double real_binary(Op op, double a, double b) {
  switch (op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    case Op::pow: return std::pow(a, b);
    case Op::mod: return std::fmod(a, b);
    case Op::max: return real_max(a, b);
    default: return real_min(a, b);
  }
}

bool real_compare(Op op, double a, double b) {
  switch (op) {
    case Op::equal: return a == b;
    case Op::less: return a < b;
    case Op::less_equal: return a <= b;
    case Op::greater: return a > b;
    default: return a >= b;
  }
}

int64_t divide(bool is_unsigned, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (is_unsigned) return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return a / b;
}

int64_t remainder(bool is_unsigned, bool sign_of_dividend, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (is_unsigned) return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return !sign_of_dividend && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Negative exponents give the truncated reciprocal: 0 but for bases 1 and -1.
int64_t power(bool is_unsigned, int64_t base, int64_t exponent) {
  if (!is_unsigned && exponent < 0) {
    if (base == 1) return 1;
    return base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  }
  uint64_t out = 1;
  auto factor = static_cast<uint64_t>(base);
  for (auto left = static_cast<uint64_t>(exponent); left != 0; left >>= 1, factor *= factor) {
    if (left & 1) out *= factor;
  }
  return static_cast<int64_t>(out);
}

int64_t integer_binary(const Call& call, ir::DType dtype, int64_t a, int64_t b) {
  const bool is_unsigned = dtype == ir::DType::u64;
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  const bool below = is_unsigned ? x < y : a < b;
  switch (call.node.op) {
    case Op::add: return static_cast<int64_t>(x + y);
    case Op::sub: return static_cast<int64_t>(x - y);
    case Op::mul: return static_cast<int64_t>(x * y);
    case Op::div: return divide(is_unsigned, a, b);
    case Op::mod: return remainder(is_unsigned, call.integer("fmod") != 0, a, b);
    case Op::max: return below ? b : a;
    case Op::min: return below ? a : b;
    case Op::logical_and: return a && b;
    case Op::logical_or: return a || b;
    case Op::logical_xor: return !a != !b;
    case Op::equal: return a == b;
    case Op::less: return below;
    case Op::less_equal: return below || a == b;
    case Op::greater: return !below && a != b;
    default: return !below;
  }
}

// The operands may have different types: the result has the base's.
RefTensor pow_of(const Call& call) {
  const RefTensor& base = call.input(0);
  const RefTensor& exponent = call.input(1);
  RefTensor out = make(call);
  const std::array<Extents, 2> strides{broadcast_strides(base.extents, out.extents), broadcast_strides(exponent.extents, out.extents)};
  walk(out.extents, strides, [&](int64_t i, const std::array<int64_t, 2>& at) {
    const auto to = static_cast<size_t>(i);
    const auto left = static_cast<size_t>(at[0]);
    const auto right = static_cast<size_t>(at[1]);
    if (!base.floating() && !exponent.floating()) {
      out.integers[to] = wrap(out.dtype, power(exponent.dtype == ir::DType::u64, base.integers[left], exponent.integers[right]));
      return;
    }
    const double a = base.floating() ? base.reals[left] : real_of(base.dtype, base.integers[left]);
    const double b = exponent.floating() ? exponent.reals[right] : real_of(exponent.dtype, exponent.integers[right]);
    const double value = std::pow(a, b);
    if (out.floating()) out.reals[to] = value;
    else out.integers[to] = truncate_real(out.dtype, value);
  });
  return out;
}

RefTensor binary(const Call& call) {
  const Op op = call.node.op;
  const RefTensor& a = call.input(0);
  const RefTensor& b = call.input(1);
  RefTensor out = make(call);
  const std::array<Extents, 2> strides{broadcast_strides(a.extents, out.extents), broadcast_strides(b.extents, out.extents)};
  walk(out.extents, strides, [&](int64_t i, const std::array<int64_t, 2>& at) {
    const auto to = static_cast<size_t>(i);
    const auto left = static_cast<size_t>(at[0]);
    const auto right = static_cast<size_t>(at[1]);
    if (out.floating()) out.reals[to] = real_binary(op, a.reals[left], b.reals[right]);
    else if (a.floating()) out.integers[to] = real_compare(op, a.reals[left], b.reals[right]);
    else out.integers[to] = wrap(out.dtype, integer_binary(call, a.dtype, a.integers[left], b.integers[right]));
  });
  return out;
}

RefTensor where(const Call& call) {
  const RefTensor& condition = call.input(0);
  const RefTensor& a = call.input(1);
  const RefTensor& b = call.input(2);
  RefTensor out = make(call);
  const std::array<Extents, 3> strides{broadcast_strides(condition.extents, out.extents), broadcast_strides(a.extents, out.extents),
                                       broadcast_strides(b.extents, out.extents)};
  walk(out.extents, strides, [&](int64_t i, const std::array<int64_t, 3>& at) {
    const bool first = condition.integers[static_cast<size_t>(at[0])] != 0;
    const RefTensor& source = first ? a : b;
    const auto from = static_cast<size_t>(first ? at[1] : at[2]);
    if (out.floating()) out.reals[static_cast<size_t>(i)] = source.reals[from];
    else out.integers[static_cast<size_t>(i)] = source.integers[from];
  });
  return out;
}

}  // namespace

Result<Results> evaluate_pointwise(const Call& call) {
  const auto one = [](RefTensor tensor) {
    Results out;
    out.push_back(std::move(tensor));
    return out;
  };
  if (call.node.op == Op::where) return one(where(call));
  if (call.node.op == Op::pow) return one(pow_of(call));
  return one(ir::info(call.node.op).max_inputs == 1 ? unary(call) : binary(call));
}

}  // namespace rtx::reference

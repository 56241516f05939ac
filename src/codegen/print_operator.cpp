// How each scalar operator is spelled in a kernel.
#include <cmath>
#include <cstdio>

#include "base/assert.h"
#include "codegen/print.h"

namespace rtx::codegen {

using ir::DType;
using ir::Op;

std::string type_text(DType dtype) { return dtype == DType::boolean ? "u8" : std::string(ir::name(dtype)); }
std::string compute_text(DType dtype) { return type_text(ir::compute_dtype(dtype)); }

std::string lanes_text(DType dtype, int width) {
  if (dtype == DType::boolean) return width == 1 ? "bool" : "mask<" + std::to_string(width) + ">";
  return width == 1 ? compute_text(dtype) : "vec<" + compute_text(dtype) + ", " + std::to_string(width) + ">";
}

std::string literal_text(DType dtype, double real, int64_t integer) {
  const DType type = ir::compute_dtype(dtype);
  if (type == DType::boolean) return integer != 0 ? "true" : "false";
  if (!ir::is_floating(type)) {
    const std::string name = type_text(type);
    if (type == DType::u64) return "u64(" + std::to_string(static_cast<uint64_t>(integer)) + "u)";
    if (integer == INT64_MIN) return name + "(-9223372036854775807 - 1)";
    return name + "(" + std::to_string(integer) + ")";
  }
  const bool single = type == DType::f32;
  const double value = single ? static_cast<double>(static_cast<float>(real)) : real;
  if (std::isnan(value)) return single ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")";
  if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + (single ? "__builtin_inff()" : "__builtin_inf()");
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, single ? "%.9g" : "%.17g", value);
  std::string text = buffer;
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + (single ? "f" : "");
}

namespace {

std::string call(const std::string& function, const std::vector<std::string>& arguments) {
  std::string out = function + "(";
  for (size_t k = 0; k < arguments.size(); ++k) out += (k ? ", " : "") + arguments[k];
  return out + ")";
}

std::string splat_text(DType dtype, int width, double value) {
  return "splat<" + lanes_text(dtype, width) + ">(" + literal_text(dtype, value, static_cast<int64_t>(value)) + ")";
}

std::string cast_text(const std::string& x, DType from, DType to, int width) {
  const DType source = ir::compute_dtype(from), target = ir::compute_dtype(to);
  if (source == target) return x;
  const std::string w = std::to_string(width);
  if (target == DType::boolean) return "to_mask<" + w + ">(" + x + " != " + splat_text(source, width, 0) + ")";
  if (source == DType::boolean) return "select(" + x + ", " + splat_text(target, width, 1) + ", " + splat_text(target, width, 0) + ")";
  return "convert<" + type_text(target) + ">(" + x + ")";
}

std::string mask_logic(const std::string& symbol, const std::string& a, const std::string& b, int width) {
  if (width > 1) return a + " " + symbol + " " + b;
  return "bool(" + a + " " + symbol + " " + b + ")";
}

}  // namespace

std::string operator_text(const Element& e, const std::vector<std::string>& a, const std::vector<DType>& types, int width) {
  const std::string lanes = lanes_text(e.dtype, width), w = std::to_string(width);
  const DType type = ir::compute_dtype(e.dtype);
  // Narrow integers are promoted by C; the cast brings one lane back to its own type.
  const bool promoted = width == 1 && ir::info(type).bits < 32;
  const auto infix = [&](const std::string& symbol) {
    const std::string text = a[0] + " " + symbol + " " + a[1];
    return promoted ? lanes + "(" + text + ")" : text;
  };
  const auto compare = [&](const std::string& symbol) {
    if (types[0] == DType::boolean && symbol == "==") return width > 1 ? "~(" + a[0] + " ^ " + a[1] + ")" : a[0] + " == " + a[1];
    return "to_mask<" + w + ">(" + a[0] + " " + symbol + " " + a[1] + ")";
  };
  switch (e.op) {
    case Op::neg: return promoted ? lanes + "(-" + a[0] + ")" : "-" + a[0];
    case Op::abs: return call("math::abs", a);
    case Op::reciprocal: return call("math::reciprocal", a);
    case Op::sqrt: return call("math::sqrt", a);
    case Op::exp: return call("math::exp", a);
    case Op::log: return call("math::log", a);
    case Op::erf: return call("math::erf", a);
    case Op::tanh: return call("math::tanh", a);
    case Op::sigmoid: return call("math::sigmoid", a);
    case Op::relu: return call("math::relu", a);
    case Op::logical_not: return width > 1 ? "~" + a[0] : "!" + a[0];
    case Op::cast: return cast_text(a[0], types[0], e.dtype, width);
    case Op::gelu: return call(e.attributes.integer("tanh") != 0 ? "math::gelu_tanh" : "math::gelu_erf", a);
    case Op::silu: {
      const double alpha = e.attributes.real("alpha", 1.0);
      if (alpha == 1.0) return call("math::silu", a);
      return lanes + "(" + a[0] + " * math::sigmoid(" + lanes + "(" + a[0] + " * " + splat_text(e.dtype, width, alpha) + ")))";
    }
    case Op::add: return infix("+");
    case Op::sub: return infix("-");
    case Op::mul: return infix("*");
    case Op::div: return ir::is_floating(type) ? infix("/") : call("math::div", a);
    case Op::pow: {
      const DType power = ir::compute_dtype(types[1]);
      if (power == type) return call("math::pow", a);
      if (ir::is_floating(type)) return "math::pow(" + a[0] + ", " + cast_text(a[1], types[1], e.dtype, width) + ")";
      if (ir::is_floating(power))
        return "convert<" + type_text(type) + ">(math::pow(convert<f64>(" + a[0] + "), convert<f64>(" + a[1] + ")))";
      return "convert<" + type_text(type) + ">(math::pow(convert<i64>(" + a[0] + "), convert<i64>(" + a[1] + ")))";
    }
    case Op::mod:
      if (e.attributes.integer("fmod") != 0) return call("math::mod_trunc", a);
      return call("math::mod_floor", a);
    case Op::max: return call("math::max", a);
    case Op::min: return call("math::min", a);
    case Op::logical_and: return mask_logic("&", a[0], a[1], width);
    case Op::logical_or: return mask_logic("|", a[0], a[1], width);
    case Op::logical_xor: return mask_logic("^", a[0], a[1], width);
    case Op::equal: return compare("==");
    case Op::less: return compare("<");
    case Op::less_equal: return compare("<=");
    case Op::greater: return compare(">");
    case Op::greater_equal: return compare(">=");
    case Op::where:
      if (type == DType::boolean && width > 1) return "(" + a[0] + " & " + a[1] + ") | (~" + a[0] + " & " + a[2] + ")";
      return call("select", a);
    default: break;
  }
  RTX_ASSERT(false, "only pointwise operators are printed");
}

}  // namespace rtx::codegen

#include "kernels/reduce/arithmetic.h"

#include "codegen/print.h"

namespace rtx::kernels::reduce {

using ir::DType;
using ir::Op;

Arithmetic::Arithmetic(const Problem& p) : p_(p) {
  const bool real = ir::is_floating(p.dtype), sums = p.op == Op::reduce_sum || p.op == Op::reduce_mean;
  lane_ = p.op == Op::reduce_mean && !real ? (ir::info(p.dtype).kind == ir::DTypeKind::signed_integer ? DType::i64 : DType::u64) : p.dtype;
  total_ = sums && real ? DType::f64 : lane_;
}

std::string Arithmetic::start(DType type) const {
  if (p_.op == Op::reduce_sum || p_.op == Op::reduce_mean) return codegen::type_text(type) + "(0)";
  const bool highest = p_.op == Op::reduce_max;
  const std::string name = codegen::type_text(type);
  const auto& row = ir::info(type);
  if (ir::is_floating(type)) return std::string(highest ? "-" : "") + (type == DType::f64 ? "__builtin_inf()" : "__builtin_inff()");
  if (row.kind == ir::DTypeKind::unsigned_integer) return highest ? name + "(0)" : name + "(-1)";
  const std::string low = "(u64(1) << " + number(row.bits - 1) + ")";
  return highest ? name + low : name + "(~" + low + ")";
}

std::string Arithmetic::combined(DType type, const std::string& a, const std::string& b, int width) const {
  if (p_.op == Op::reduce_max) return "math::max(" + a + ", " + b + ")";
  if (p_.op == Op::reduce_min) return "math::min(" + a + ", " + b + ")";
  if (width == 1 && ir::info(type).bits < 32) return codegen::type_text(type) + "(" + a + " + " + b + ")";
  return a + " + " + b;
}

std::string Arithmetic::finished(const std::string& total, int width) const {
  std::string out = total;
  if (p_.op == Op::reduce_mean) {
    const std::string lanes = codegen::lanes_text(total_, width), n = "splat<" + lanes + ">(" + codegen::literal_text(total_, static_cast<double>(p_.terms), p_.terms) + ")";
    out = ir::is_floating(total_) ? "(" + total + " / " + n + ")" : "math::div(" + total + ", " + n + ")";
  }
  return total_ == p_.dtype ? out : "convert<" + codegen::type_text(p_.dtype) + ">(" + out + ")";
}

}  // namespace rtx::kernels::reduce

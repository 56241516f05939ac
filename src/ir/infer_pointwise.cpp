#include "ir/infer_rules.h"

namespace rtx::ir::infer_rules {
namespace {

enum class Domain { floating, numeric, boolean, any };

// Which element types the operands may have.
Domain domain(Op op) {
  switch (op) {
    case Op::reciprocal:
    case Op::sqrt:
    case Op::exp:
    case Op::log:
    case Op::erf:
    case Op::tanh:
    case Op::sigmoid:
    case Op::gelu:
    case Op::silu: return Domain::floating;
    case Op::logical_not:
    case Op::logical_and:
    case Op::logical_or:
    case Op::logical_xor: return Domain::boolean;
    case Op::cast:
    case Op::equal: return Domain::any;
    default: return Domain::numeric;
  }
}

bool gives_boolean(Op op) {
  return op == Op::equal || op == Op::less || op == Op::less_equal || op == Op::greater || op == Op::greater_equal;
}

Status in_domain(const Inputs& in, size_t i) {
  const DType dtype = in.dtype(i);
  const std::string found = "input " + std::to_string(i) + " is " + std::string(name(dtype)) + ", expected ";
  switch (domain(in.node.op)) {
    case Domain::floating: return floating(in, i);
    case Domain::boolean: return dtype == DType::boolean ? success() : Status(refuse(in, found + "bool"));
    case Domain::numeric: return dtype != DType::boolean ? success() : Status(refuse(in, found + "a number type"));
    case Domain::any: return success();
  }
  return success();
}

}  // namespace

Result<Types> infer_pointwise(const Inputs& in, const Types& wanted) {
  const Op op = in.node.op;
  if (op == Op::where) {
    if (in.dtype(0) != DType::boolean) return refuse(in, "the condition is " + std::string(name(in.dtype(0))) + ", expected bool");
    RTX_CHECK(same_dtype(in, 1, 2));
    RTX_TRY(auto shape, broadcast_of(in, in.shape(1), in.shape(2)));
    RTX_TRY(auto full, broadcast_of(in, in.shape(0), shape));
    return Types{{in.dtype(1), full}};
  }
  RTX_CHECK(in_domain(in, 0));
  if (op == Op::gelu) RTX_CHECK(flag(in, "tanh"));
  if (op == Op::cast) {
    if (wanted.empty()) return refuse(in, "the type to cast to is not given");
    if (!wanted[0].shape.empty() && wanted[0].shape != in.shape(0)) {
      return refuse(in, "a cast keeps the shape, found " + text(wanted[0].shape));
    }
    return Types{{wanted[0].dtype, in.shape(0)}};
  }
  if (info(op).max_inputs == 1) return Types{{in.dtype(0), in.shape(0)}};
  RTX_CHECK(in_domain(in, 1));
  if (op != Op::pow) RTX_CHECK(same_dtype(in, 0, 1));
  if (op == Op::mod) {
    RTX_CHECK(flag(in, "fmod"));
    if (in.node.attributes.integer("fmod") == 0 && is_floating(in.dtype(0))) {
      return refuse(in, "mod of a floating type needs fmod=1");
    }
  }
  RTX_TRY(auto shape, broadcast_of(in, in.shape(0), in.shape(1)));
  return Types{{gives_boolean(op) ? DType::boolean : in.dtype(0), shape}};
}

}  // namespace rtx::ir::infer_rules

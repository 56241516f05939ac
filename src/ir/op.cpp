#include "ir/op.h"

#include <array>

namespace rtx::ir {
namespace {

using Class = OpClass;

constexpr std::array<OpInfo, static_cast<size_t>(Op::count_)> kOps{{
    {Op::neg, "neg", Class::pointwise, 1, 1, 1},
    {Op::abs, "abs", Class::pointwise, 1, 1, 1},
    {Op::reciprocal, "reciprocal", Class::pointwise, 1, 1, 1},
    {Op::sqrt, "sqrt", Class::pointwise, 1, 1, 1},
    {Op::exp, "exp", Class::pointwise, 1, 1, 1},
    {Op::log, "log", Class::pointwise, 1, 1, 1},
    {Op::erf, "erf", Class::pointwise, 1, 1, 1},
    {Op::tanh, "tanh", Class::pointwise, 1, 1, 1},
    {Op::sigmoid, "sigmoid", Class::pointwise, 1, 1, 1},
    {Op::relu, "relu", Class::pointwise, 1, 1, 1},
    {Op::logical_not, "logical_not", Class::pointwise, 1, 1, 1},
    {Op::cast, "cast", Class::pointwise, 1, 1, 1},
    {Op::gelu, "gelu", Class::pointwise, 1, 1, 1},
    {Op::silu, "silu", Class::pointwise, 1, 1, 1},
    {Op::add, "add", Class::pointwise, 2, 2, 1},
    {Op::sub, "sub", Class::pointwise, 2, 2, 1},
    {Op::mul, "mul", Class::pointwise, 2, 2, 1},
    {Op::div, "div", Class::pointwise, 2, 2, 1},
    {Op::pow, "pow", Class::pointwise, 2, 2, 1},
    {Op::mod, "mod", Class::pointwise, 2, 2, 1},
    {Op::max, "max", Class::pointwise, 2, 2, 1},
    {Op::min, "min", Class::pointwise, 2, 2, 1},
    {Op::logical_and, "logical_and", Class::pointwise, 2, 2, 1},
    {Op::logical_or, "logical_or", Class::pointwise, 2, 2, 1},
    {Op::logical_xor, "logical_xor", Class::pointwise, 2, 2, 1},
    {Op::equal, "equal", Class::pointwise, 2, 2, 1},
    {Op::less, "less", Class::pointwise, 2, 2, 1},
    {Op::less_equal, "less_equal", Class::pointwise, 2, 2, 1},
    {Op::greater, "greater", Class::pointwise, 2, 2, 1},
    {Op::greater_equal, "greater_equal", Class::pointwise, 2, 2, 1},
    {Op::where, "where", Class::pointwise, 3, 3, 1},
    {Op::reshape, "reshape", Class::movement, 1, 1, 1},
    {Op::transpose, "transpose", Class::movement, 1, 1, 1},
    {Op::slice, "slice", Class::movement, 1, 1, 1},
    {Op::expand, "expand", Class::movement, 1, 1, 1},
    {Op::concat, "concat", Class::movement, 1, -1, 1},
    {Op::gather, "gather", Class::movement, 2, 2, 1},
    {Op::gather_nd, "gather_nd", Class::movement, 2, 2, 1},
    {Op::scatter_nd, "scatter_nd", Class::movement, 3, 3, 1},
    {Op::tensor_scatter, "tensor_scatter", Class::movement, 3, 3, 1},
    {Op::trilu, "trilu", Class::movement, 1, 1, 1},
    {Op::reduce_sum, "reduce_sum", Class::reduction, 1, 1, 1},
    {Op::reduce_mean, "reduce_mean", Class::reduction, 1, 1, 1},
    {Op::reduce_max, "reduce_max", Class::reduction, 1, 1, 1},
    {Op::reduce_min, "reduce_min", Class::reduction, 1, 1, 1},
    {Op::cumsum, "cumsum", Class::scan, 1, 1, 1},
    {Op::softmax, "softmax", Class::normalization, 1, 1, 1},
    {Op::log_softmax, "log_softmax", Class::normalization, 1, 1, 1},
    {Op::layer_norm, "layer_norm", Class::normalization, 1, 3, 3},
    {Op::rms_norm, "rms_norm", Class::normalization, 1, 2, 1},
    {Op::matmul, "matmul", Class::contraction, 2, 2, 1},
    {Op::rotary, "rotary", Class::movement, 3, 3, 1},
    {Op::attention, "attention", Class::attention, 3, 5, 1},
}};

constexpr bool table_is_in_order() {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (static_cast<size_t>(kOps[i].op) != i) return false;
  }
  return true;
}
static_assert(table_is_in_order(), "the operator table follows the enumeration");

using Kind = AttributeKind;
constexpr AttributeInfo kGelu[]{{"tanh", Kind::integer, false, 0}};
constexpr AttributeInfo kSilu[]{{"alpha", Kind::real, false, 1}};
constexpr AttributeInfo kMod[]{{"fmod", Kind::integer, false, 0}};
constexpr AttributeInfo kTranspose[]{{"perm", Kind::integers, true, 0}};
constexpr AttributeInfo kSlice[]{{"starts", Kind::integers, true, 0}, {"steps", Kind::integers, true, 0}};
constexpr AttributeInfo kAxis[]{{"axis", Kind::integer, true, 0}};
constexpr AttributeInfo kGather[]{{"axis", Kind::integer, false, 0}};
constexpr AttributeInfo kGatherNd[]{{"batch_dims", Kind::integer, false, 0}};
constexpr AttributeInfo kScatterNd[]{{"reduction", Kind::integer, false, 0}};
constexpr AttributeInfo kTensorScatter[]{{"axis", Kind::integer, true, 0}, {"circular", Kind::integer, false, 0}};
constexpr AttributeInfo kTrilu[]{{"upper", Kind::integer, false, 0}, {"k", Kind::integer, false, 0}};
constexpr AttributeInfo kReduce[]{{"axes", Kind::integers, true, 0}, {"keepdims", Kind::integer, false, 0}};
constexpr AttributeInfo kScan[]{{"axis", Kind::integer, true, 0}, {"exclusive", Kind::integer, false, 0}, {"reverse", Kind::integer, false, 0}};
constexpr AttributeInfo kNorm[]{{"axis", Kind::integer, true, 0}, {"epsilon", Kind::real, false, 1e-5}};
constexpr AttributeInfo kMatmul[]{{"trans_a", Kind::integer, false, 0}, {"trans_b", Kind::integer, false, 0}};
constexpr AttributeInfo kRotary[]{{"interleaved", Kind::integer, false, 0}, {"rotary_dim", Kind::integer, true, 0}};
constexpr AttributeInfo kAttention[]{{"scale", Kind::real, true, 1},           {"causal", Kind::integer, false, 0},
                                     {"causal_offset", Kind::integer, false, 0}, {"window_left", Kind::integer, false, -1},
                                     {"window_right", Kind::integer, false, -1}, {"softcap", Kind::real, false, 0},
                                     {"empty_row_nan", Kind::integer, false, 0}};

}  // namespace

const OpInfo& info(Op op) { return kOps[static_cast<size_t>(op)]; }

std::optional<Op> op_from_name(std::string_view name) {
  for (const auto& row : kOps) {
    if (row.name == name) return row.op;
  }
  return std::nullopt;
}

std::span<const AttributeInfo> attributes_of(Op op) {
  switch (op) {
    case Op::gelu: return kGelu;
    case Op::silu: return kSilu;
    case Op::mod: return kMod;
    case Op::transpose: return kTranspose;
    case Op::slice: return kSlice;
    case Op::concat:
    case Op::softmax:
    case Op::log_softmax: return kAxis;
    case Op::gather: return kGather;
    case Op::gather_nd: return kGatherNd;
    case Op::scatter_nd: return kScatterNd;
    case Op::tensor_scatter: return kTensorScatter;
    case Op::trilu: return kTrilu;
    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
    case Op::reduce_min: return kReduce;
    case Op::cumsum: return kScan;
    case Op::layer_norm:
    case Op::rms_norm: return kNorm;
    case Op::matmul: return kMatmul;
    case Op::rotary: return kRotary;
    case Op::attention: return kAttention;
    default: return {};
  }
}

}  // namespace rtx::ir

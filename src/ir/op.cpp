#include "ir/op.h"

#include <array>

namespace rtx::ir {
namespace {

using enum OpClass;

constexpr std::array<OpInfo, static_cast<size_t>(Op::count_)> kTable{{
    {Op::neg, "neg", pointwise, 1, 1, 1},
    {Op::abs, "abs", pointwise, 1, 1, 1},
    {Op::reciprocal, "reciprocal", pointwise, 1, 1, 1},
    {Op::sqrt, "sqrt", pointwise, 1, 1, 1},
    {Op::exp, "exp", pointwise, 1, 1, 1},
    {Op::log, "log", pointwise, 1, 1, 1},
    {Op::erf, "erf", pointwise, 1, 1, 1},
    {Op::tanh, "tanh", pointwise, 1, 1, 1},
    {Op::sigmoid, "sigmoid", pointwise, 1, 1, 1},
    {Op::relu, "relu", pointwise, 1, 1, 1},
    {Op::logical_not, "logical_not", pointwise, 1, 1, 1},
    {Op::cast, "cast", pointwise, 1, 1, 1},
    {Op::gelu, "gelu", pointwise, 1, 1, 1},
    {Op::silu, "silu", pointwise, 1, 1, 1},
    {Op::add, "add", pointwise, 2, 2, 1},
    {Op::sub, "sub", pointwise, 2, 2, 1},
    {Op::mul, "mul", pointwise, 2, 2, 1},
    {Op::div, "div", pointwise, 2, 2, 1},
    {Op::pow, "pow", pointwise, 2, 2, 1},
    {Op::mod, "mod", pointwise, 2, 2, 1},
    {Op::max, "max", pointwise, 2, 2, 1},
    {Op::min, "min", pointwise, 2, 2, 1},
    {Op::logical_and, "logical_and", pointwise, 2, 2, 1},
    {Op::logical_or, "logical_or", pointwise, 2, 2, 1},
    {Op::logical_xor, "logical_xor", pointwise, 2, 2, 1},
    {Op::equal, "equal", pointwise, 2, 2, 1},
    {Op::less, "less", pointwise, 2, 2, 1},
    {Op::less_equal, "less_equal", pointwise, 2, 2, 1},
    {Op::greater, "greater", pointwise, 2, 2, 1},
    {Op::greater_equal, "greater_equal", pointwise, 2, 2, 1},
    {Op::where, "where", pointwise, 3, 3, 1},
    {Op::reshape, "reshape", movement, 1, 1, 1},
    {Op::transpose, "transpose", movement, 1, 1, 1},
    {Op::slice, "slice", movement, 1, 1, 1},
    {Op::expand, "expand", movement, 1, 1, 1},
    {Op::concat, "concat", movement, 1, -1, 1},
    {Op::gather, "gather", movement, 2, 2, 1},
    {Op::gather_nd, "gather_nd", movement, 2, 2, 1},
    {Op::scatter_nd, "scatter_nd", movement, 3, 3, 1},
    {Op::trilu, "trilu", movement, 1, 1, 1},
    {Op::reduce_sum, "reduce_sum", reduction, 1, 1, 1},
    {Op::reduce_mean, "reduce_mean", reduction, 1, 1, 1},
    {Op::reduce_max, "reduce_max", reduction, 1, 1, 1},
    {Op::reduce_min, "reduce_min", reduction, 1, 1, 1},
    {Op::softmax, "softmax", normalization, 1, 1, 1},
    {Op::log_softmax, "log_softmax", normalization, 1, 1, 1},
    {Op::layer_norm, "layer_norm", normalization, 1, 3, 3},
    {Op::rms_norm, "rms_norm", normalization, 1, 2, 1},
    {Op::matmul, "matmul", contraction, 2, 2, 1},
    {Op::rotary, "rotary", movement, 3, 3, 1},
    {Op::attention, "attention", attention, 3, 5, 1},
}};

constexpr bool table_is_in_order() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<size_t>(kTable[i].op) != i) return false;
  }
  return true;
}
static_assert(table_is_in_order(), "the operator table follows the enumeration");

using enum AttributeKind;
constexpr AttributeInfo kGelu[]{{"tanh", integer, false, 0}};
constexpr AttributeInfo kSilu[]{{"alpha", real, false, 1}};
constexpr AttributeInfo kMod[]{{"fmod", integer, false, 0}};
constexpr AttributeInfo kTranspose[]{{"perm", integers, true, 0}};
constexpr AttributeInfo kSlice[]{{"starts", integers, true, 0}, {"steps", integers, true, 0}};
constexpr AttributeInfo kAxis[]{{"axis", integer, true, 0}};
constexpr AttributeInfo kGather[]{{"axis", integer, false, 0}};
constexpr AttributeInfo kGatherNd[]{{"batch_dims", integer, false, 0}};
constexpr AttributeInfo kScatterNd[]{{"reduction", integer, false, 0}};
constexpr AttributeInfo kTrilu[]{{"upper", integer, false, 0}, {"k", integer, false, 0}};
constexpr AttributeInfo kReduce[]{{"axes", integers, true, 0}, {"keepdims", integer, false, 0}};
constexpr AttributeInfo kNorm[]{{"axis", integer, true, 0}, {"epsilon", real, false, 1e-5}};
constexpr AttributeInfo kMatmul[]{{"trans_a", integer, false, 0}, {"trans_b", integer, false, 0}};
constexpr AttributeInfo kRotary[]{{"interleaved", integer, false, 0}, {"rotary_dim", integer, true, 0}};
constexpr AttributeInfo kAttention[]{{"scale", real, true, 1},           {"causal", integer, false, 0},
                                     {"causal_offset", integer, false, 0}, {"window_left", integer, false, -1},
                                     {"window_right", integer, false, -1}, {"softcap", real, false, 0},
                                     {"empty_row_nan", integer, false, 0}};

}  // namespace

const OpInfo& info(Op op) { return kTable[static_cast<size_t>(op)]; }

std::optional<Op> op_from_name(std::string_view name) {
  for (const auto& row : kTable) {
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
    case Op::trilu: return kTrilu;
    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
    case Op::reduce_min: return kReduce;
    case Op::layer_norm:
    case Op::rms_norm: return kNorm;
    case Op::matmul: return kMatmul;
    case Op::rotary: return kRotary;
    case Op::attention: return kAttention;
    default: return {};
  }
}

}  // namespace rtx::ir

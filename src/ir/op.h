#pragma once
// The operators of the IR, as rows of a table. ONNX's many opset forms are lowered to these by the importer, so that fuse,
// reference and kernels know one spelling each. A row holds the class, arity and shape rule; reference/ has one evaluator
// a row (later rows: gradient, quantised form). Adding an operator = a row here, a shape rule, an evaluator, an importer
// line and, unless it is pointwise or movement (which the loop-nest printer covers by its table), an emitter.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rtx::ir {

enum class Op : uint8_t {
  // pointwise, one input
  neg, abs, reciprocal, sqrt, exp, log, erf, tanh, sigmoid, relu, logical_not, cast, gelu, silu,
  // pointwise, two inputs with numpy broadcasting
  add, sub, mul, div, pow, mod, max, min, logical_and, logical_or, logical_xor,
  equal, less, less_equal, greater, greater_equal,
  // pointwise, three inputs with broadcasting: where(condition, a, b)
  where,
  // data movement
  reshape, transpose, slice, expand, concat, gather, gather_nd, scatter_nd, tensor_scatter, trilu,
  // reductions along axes
  reduce_sum, reduce_mean, reduce_max, reduce_min,
  // running results along one axis
  cumsum,
  // row operators along one axis / trailing axes
  softmax, log_softmax, layer_norm, rms_norm,
  // matrix and composite operators
  matmul, rotary, attention,
  count_
};

enum class OpClass : uint8_t { pointwise, movement, reduction, scan, normalization, contraction, attention };

// Attributes by operator (all others take none). Integer lists and doubles only; see Attributes in graph.h. The builders fill
// in what is left out (integers 0, windows -1, alpha 1, epsilon 1e-5), so that equal nodes have equal attributes; perm, starts,
// steps, axes, scale and the axis of concat and the row operators must be given. Other attributes are refused.
//   cast          to (dtype of the output value; no attribute: the output's dtype decides)
//   gelu          tanh = 0|1                (0: erf form)
//   silu          alpha (double)            x * sigmoid(alpha x)
//   mod           fmod = 0|1                (0: sign of the divisor, integers only; 1: C fmod)
//   reshape       extents come from the output's shape
//   transpose     perm
//   slice         starts, steps: one per dimension, canonical (start in range, step != 0); the output's shape gives lengths
//   expand        numpy broadcast to the output's shape
//   concat        axis
//   gather        axis; indices in [-n, n-1]
//   gather_nd     batch_dims
//   scatter_nd    reduction = 0 none, 1 add, 2 mul, 3 max, 4 min
//   tensor_scatter   axis (at least 1), circular = 0|1; inputs cache [B,..], fresh (as the cache, but S long along axis), start i64 [B]: the cache
//                 with fresh written from row start[b] of axis on; circular: modulo the axis; rows outside are the user's error
//   trilu         upper = 0|1, k            (last two dimensions)
//   reduce_*      axes (sorted, non-negative), keepdims = 0|1
//   cumsum        axis (non-negative), exclusive = 0|1 (1: an element is not in its own sum), reverse = 0|1 (1: from the end); no family computes it
//                 yet: CONTRIBUTING.md builds one
//   softmax, log_softmax   axis (non-negative)
//   layer_norm    axis, epsilon (double); inputs x, scale?, bias?; outputs y [, mean, inv_std_dev]; scale/bias broadcast to the trailing axes
//   rms_norm      axis, epsilon; inputs x, scale?; y = x / sqrt(mean(x^2) + epsilon) * scale
//   matmul        trans_a, trans_b = 0|1    numpy batched semantics on the last two dimensions; 1-D inputs are reshaped away by the importer
//   rotary        interleaved = 0|1, rotary_dim; inputs x [B,H,S,D], cos [B|1,S,rotary_dim/2], sin (same); the rest of D passes through
//   attention     scale (double), causal = 0|1, causal_offset (query i sees keys j <= i + causal_offset), window_left, window_right (-1: unlimited),
//                 softcap (double, 0: none; before the mask), empty_row_nan = 0|1 (what a fully masked row gives: 0 -> zeros, 1 -> NaN)
//                 inputs q [B,Hq,Sq,D], k [B,Hkv,Skv,D], v [B,Hkv,Skv,Dv] [, mask (bool: true = keep, or float: added), broadcastable to
//                 [B,Hq,Sq,Skv]] [, valid_length i64 [B]: keys j >= valid_length[b] are masked]; an absent input is kNoValue; Hq % Hkv == 0
struct OpInfo {
  Op op;
  std::string_view name;  // "reduce_sum": the spelling of the text form and keys
  OpClass op_class;
  int8_t min_inputs;
  int8_t max_inputs;  // -1: any number
  int8_t max_outputs;
};

enum class AttributeKind : uint8_t { integer, real, integers };
struct AttributeInfo {
  std::string_view name;
  AttributeKind kind;
  bool required;
  double otherwise;  // what an absent optional attribute means
};
std::span<const AttributeInfo> attributes_of(Op op);

const OpInfo& info(Op op);
std::optional<Op> op_from_name(std::string_view name);
inline std::string_view name(Op op) { return info(op).name; }

}  // namespace rtx::ir

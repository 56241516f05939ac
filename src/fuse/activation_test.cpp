#include "fuse/expectation_testing.h"

namespace rtx::fuse {
namespace {

const std::string kConstants =
    "x: f32[4,8]; half: const f32[] {0.5}; one: const f32[] {1}; root: const f32[] {1.4142135}; inverse: "
    "const f32[] {0.70710678}; "
    "three: const f32[] {3}; cubic: const f32[] {0.044715}; slope: const f32[] {0.7978845608}; ";
const std::string kErf = "x: f32[4,8]; y = gelu(x, tanh=0); return y";
const std::string kTanh = "x: f32[4,8]; y = gelu(x, tanh=1); return y";

TEST(Gelu, erf_form_is_found_in_its_spellings) {
  EXPECT_BECOMES(
      kConstants + "a = div(x, root); t = erf(a); b = add(t, one); c = mul(x, b); y = mul(c, half); return y",
      kErf);
  EXPECT_BECOMES(
      kConstants +
          "a = mul(inverse, x); t = erf(a); b = add(one, t); c = mul(half, b); y = mul(c, x); return y",
      kErf);
  EXPECT_BECOMES(
      kConstants +
          "a = mul(x, inverse); t = erf(a); b = mul(t, half); c = add(b, half); y = mul(x, c); return y",
      kErf);
  EXPECT_BECOMES(
      kConstants + "h = mul(x, half); a = div(x, root); t = erf(a); b = mul(h, t); y = add(h, b); return y",
      kErf);
}
TEST(Gelu, of_a_scaled_value_is_the_gelu_of_that_value) {
  EXPECT_BECOMES(kConstants +
                     "u = mul(x, three); a = div(u, root); t = erf(a); b = add(t, one); c = mul(u, b); y = "
                     "mul(c, half); return y",
                 "x: f32[4,8]; three: const f32[] {3}; u = mul(x, three); y = gelu(u, tanh=0); return y");
}
TEST(Gelu, tanh_form_is_found_in_its_spellings) {
  EXPECT_BECOMES(kConstants +
                     "p = pow(x, three); q = mul(p, cubic); r = add(x, q); a = mul(r, slope); t = tanh(a); b "
                     "= add(one, t); "
                     "h = mul(x, half); y = mul(h, b); return y",
                 kTanh);
  EXPECT_BECOMES(
      kConstants +
          "p = mul(x, x); q = mul(cubic, p); r = add(q, one); k = mul(slope, x); a = mul(k, r); t = tanh(a); "
          "b = add(t, one); c = mul(half, b); y = mul(x, c); return y",
      kTanh);
}
TEST(Gelu, forms_are_not_mixed) {
  EXPECT_FALSE(
      finds(kConstants +
                "a = div(x, root); t = tanh(a); b = add(t, one); c = mul(x, b); y = mul(c, half); return y",
            ir::Op::gelu));
  EXPECT_FALSE(finds(kConstants + "p = pow(x, three); q = mul(p, cubic); r = add(x, q); a = mul(r, slope); t "
                                  "= erf(a); b = add(one, t); "
                                  "h = mul(x, half); y = mul(h, b); return y",
                     ir::Op::gelu));
}
TEST(Gelu, with_another_constant_is_none) {
  EXPECT_FALSE(
      finds("x: f32[8]; k: const f32[] {0.7072}; one: const f32[] {1}; half: const f32[] {0.5}; a = mul(x, "
            "k); t = erf(a); "
            "b = add(t, one); c = mul(x, b); y = mul(c, half); return y",
            ir::Op::gelu));
  EXPECT_FALSE(finds(kConstants + "a = div(x, root); t = erf(a); b = add(t, one); c = mul(x, b); return c",
                     ir::Op::gelu));
}
TEST(Gelu, in_half_precision_has_constants_of_that_precision) {
  EXPECT_BECOMES(
      "x: f16[8]; k: const f16[] {0.70703125}; one: const f16[] {1}; half: const f16[] {0.5}; a = mul(x, k); "
      "t = erf(a); "
      "b = add(t, one); c = mul(x, b); y = mul(c, half); return y",
      "x: f16[8]; y = gelu(x, tanh=0); return y");
}
TEST(Gelu, of_two_values_is_none) {
  EXPECT_FALSE(finds(kConstants + "w: f32[4,8]; a = div(w, root); t = erf(a); b = add(t, one); c = mul(x, "
                                  "b); y = mul(c, half); return y",
                     ir::Op::gelu));
}
TEST(Gelu, stays_written_out_when_the_erf_has_a_second_reader_or_is_a_result) {
  const auto chain =
      kConstants + "a = div(x, root); t = erf(a); b = add(t, one); c = mul(x, b); y = mul(c, half); ";
  EXPECT_FALSE(finds(chain + "z = neg(t); return y, z", ir::Op::gelu));
  EXPECT_FALSE(finds(chain + "return y, t", ir::Op::gelu));
  EXPECT_FALSE(finds(chain + "return y, c", ir::Op::gelu));
}
TEST(Gelu, that_a_constant_widens_is_none) {
  EXPECT_FALSE(
      finds("x: f32[8]; half: const f32[2,1] {0.5, 0.5}; one: const f32[] {1}; root: const f32[] "
            "{1.4142135}; a = div(x, root); "
            "t = erf(a); b = add(t, one); c = mul(x, b); y = mul(c, half); return y",
            ir::Op::gelu));
}

TEST(Silu, is_found_with_and_without_a_factor) {
  EXPECT_BECOMES("x: f32[8]; s = sigmoid(x); y = mul(s, x); return y",
                 "x: f32[8]; y = silu(x, alpha=1.0); return y");
  EXPECT_BECOMES("x: f32[8]; k: const f32[] {1.5}; a = mul(k, x); s = sigmoid(a); y = mul(x, s); return y",
                 "x: f32[8]; y = silu(x, alpha=1.5); return y");
}
TEST(Silu, is_found_with_the_sigmoid_written_out) {
  EXPECT_BECOMES(
      "x: f32[8]; one: const f32[] {1}; n = neg(x); e = exp(n); d = add(e, one); y = div(x, d); return y",
      "x: f32[8]; y = silu(x, alpha=1.0); return y");
  EXPECT_BECOMES(
      "x: f32[8]; one: const f32[] {1}; n = neg(x); e = exp(n); d = add(one, e); s = div(one, d); y = mul(x, "
      "s); return y",
      "x: f32[8]; y = silu(x, alpha=1.0); return y");
}
TEST(Silu, a_gate_of_another_value_is_none) {
  const auto text = "x: f32[8]; w: f32[8]; s = sigmoid(w); y = mul(s, x); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Silu, stays_written_out_when_the_sigmoid_has_a_second_reader) {
  const auto text = "x: f32[8]; s = sigmoid(x); y = mul(s, x); z = neg(s); return y, z";
  EXPECT_BECOMES(text, text);
}
TEST(Sigmoid, is_found_written_out_and_not_with_the_wrong_sign) {
  EXPECT_BECOMES(
      "x: f32[8]; one: const f32[] {1}; n = neg(x); e = exp(n); d = add(e, one); y = reciprocal(d); return y",
      "x: f32[8]; y = sigmoid(x); return y");
  EXPECT_FALSE(
      finds("x: f32[8]; one: const f32[] {1}; e = exp(x); d = add(e, one); y = reciprocal(d); return y",
            ir::Op::sigmoid));
}

const std::string kSoftmax =
    "x: f32[4,8]; m = reduce_max(x, axes=[1], keepdims=1); d = sub(x, m); e = exp(d); "
    "s = reduce_sum(e, axes=[1], keepdims=1); ";
TEST(Softmax, is_found_written_out) {
  EXPECT_BECOMES(kSoftmax + "y = div(e, s); return y", "x: f32[4,8]; y = softmax(x, axis=1); return y");
  EXPECT_BECOMES(kSoftmax + "r = reciprocal(s); y = mul(r, e); return y",
                 "x: f32[4,8]; y = softmax(x, axis=1); return y");
}
TEST(Softmax, without_the_maximum_is_another_function) {
  EXPECT_FALSE(
      finds("x: f32[4,8]; e = exp(x); s = reduce_sum(e, axes=[1], keepdims=1); y = div(e, s); return y",
            ir::Op::softmax));
}
TEST(Softmax, with_the_maximum_along_another_axis_is_none) {
  EXPECT_FALSE(
      finds("x: f32[4,8]; m = reduce_max(x, axes=[0], keepdims=1); d = sub(x, m); e = exp(d); "
            "s = reduce_sum(e, axes=[1], keepdims=1); y = div(e, s); return y",
            ir::Op::softmax));
}
TEST(Softmax, stays_written_out_when_its_exponentials_or_sum_are_read) {
  EXPECT_FALSE(finds(kSoftmax + "y = div(e, s); z = neg(e); return y, z", ir::Op::softmax));
  EXPECT_FALSE(finds(kSoftmax + "y = div(e, s); return y, s", ir::Op::softmax));
}
TEST(LogSoftmax, is_found_written_out_and_the_logarithm_of_a_softmax_is_none) {
  EXPECT_BECOMES(kSoftmax + "l = log(s); y = sub(d, l); return y",
                 "x: f32[4,8]; y = log_softmax(x, axis=1); return y");
  EXPECT_FALSE(finds("x: f32[4,8]; s = softmax(x, axis=1); y = log(s); return y", ir::Op::log_softmax));
}

}  // namespace
}  // namespace rtx::fuse

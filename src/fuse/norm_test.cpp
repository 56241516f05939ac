#include "fuse/expectation_testing.h"

namespace rtx::fuse {
namespace {

const std::string kLayer =
    "x: f32[4,8]; two: const f32[] {2}; eps: const f32[] {0.001}; m = reduce_mean(x, axes=[1], keepdims=1); "
    "d = sub(x, m); "
    "p = pow(d, two); v = reduce_mean(p, axes=[1], keepdims=1); e = add(v, eps); s = sqrt(e); y = div(d, "
    "s); ";

TEST(LayerNorm, is_found_written_out) {
  EXPECT_BECOMES(kLayer + "return y",
                 "x: f32[4,8]; y = layer_norm(x, axis=1, epsilon=0.0010000000474974513); return y");
}
TEST(LayerNorm, takes_its_scale_and_bias) {
  EXPECT_BECOMES(kLayer + "g: f32[8]; b: f32[8]; a = mul(g, y); z = add(a, b); return z",
                 "x: f32[4,8]; g: f32[8]; b: f32[8]; z = layer_norm(x, g, b, axis=1, "
                 "epsilon=0.0010000000474974513); return z");
}
TEST(LayerNorm, is_found_with_a_product_a_reciprocal_and_two_subtractions) {
  EXPECT_BECOMES(
      "x: f32[4,8]; eps: const f32[] {0.5}; m = reduce_mean(x, axes=[1], keepdims=1); d = sub(x, m); d2 = "
      "sub(x, m); p = mul(d2, d2); "
      "v = reduce_mean(p, axes=[1], keepdims=1); e = add(eps, v); s = sqrt(e); r = reciprocal(s); y = mul(r, "
      "d); return y",
      "x: f32[4,8]; y = layer_norm(x, axis=1, epsilon=0.5); return y");
}
TEST(LayerNorm, is_found_with_the_variance_as_a_difference_and_gives_its_statistics) {
  EXPECT_BECOMES(
      "x: f32[4,8]; eps: const f32[] {0.5}; m = reduce_mean(x, axes=[1], keepdims=1); q = mul(x, x); w = "
      "reduce_mean(q, axes=[1], keepdims=1); "
      "mm = mul(m, m); v = sub(w, mm); e = add(v, eps); s = sqrt(e); d = sub(x, m); y = div(d, s); i = "
      "reciprocal(s); return y, m, i",
      "x: f32[4,8]; (y, m, i) = layer_norm(x, axis=1, epsilon=0.5); return y, m, i");
}
TEST(LayerNorm, over_several_trailing_axes_is_found) {
  EXPECT_BECOMES(
      "x: f32[2,4,8]; eps: const f32[] {0.5}; m = reduce_mean(x, axes=[1,2], keepdims=1); d = sub(x, m); p = "
      "mul(d, d); "
      "v = reduce_mean(p, axes=[1,2], keepdims=1); e = add(v, eps); s = sqrt(e); y = div(d, s); return y",
      "x: f32[2,4,8]; y = layer_norm(x, axis=1, epsilon=0.5); return y");
}
TEST(LayerNorm, is_found_with_an_exact_cast_inside) {
  EXPECT_BECOMES(
      "x: f16[4,8]; eps: const f32[] {0.5}; m = reduce_mean(x, axes=[1], keepdims=1); d = sub(x, m); c = "
      "cast(d): f32; p = mul(c, c); "
      "v = reduce_mean(p, axes=[1], keepdims=1); e = add(v, eps); s = sqrt(e); y = div(c, s); return y",
      "x: f16[4,8]; c = cast(x): f32; y = layer_norm(c, axis=1, epsilon=0.5); return y");
}
TEST(LayerNorm, stays_written_out_when_a_narrowing_cast_stands_inside) {
  EXPECT_FALSE(
      finds("x: f32[4,8]; eps: const f16[] {0.5}; m = reduce_mean(x, axes=[1], keepdims=1); d = sub(x, m); c "
            "= cast(d): f16; p = mul(c, c); "
            "v = reduce_mean(p, axes=[1], keepdims=1); e = add(v, eps); s = sqrt(e); f = cast(d): f16; h = "
            "neg(c); y = div(f, s); return y, h",
            ir::Op::layer_norm));
}
TEST(LayerNorm, stays_written_out_over_a_leading_axis) {
  EXPECT_FALSE(
      finds("x: f32[4,8]; eps: const f32[] {0.5}; m = reduce_mean(x, axes=[0], keepdims=1); d = sub(x, m); p "
            "= mul(d, d); "
            "v = reduce_mean(p, axes=[0], keepdims=1); e = add(v, eps); s = sqrt(e); y = div(d, s); return y",
            ir::Op::layer_norm));
}
TEST(LayerNorm, stays_written_out_when_mean_and_variance_are_over_different_axes) {
  EXPECT_FALSE(
      finds("x: f32[2,4,8]; eps: const f32[] {0.5}; m = reduce_mean(x, axes=[1,2], keepdims=1); d = sub(x, "
            "m); p = mul(d, d); "
            "v = reduce_mean(p, axes=[2], keepdims=1); e = add(v, eps); s = sqrt(e); y = div(d, s); return y",
            ir::Op::layer_norm));
}
TEST(LayerNorm, stays_written_out_when_epsilon_is_not_constant) {
  EXPECT_FALSE(finds(
      "x: f32[4,8]; eps: f32[4,1]; m = reduce_mean(x, axes=[1], keepdims=1); d = sub(x, m); p = mul(d, d); "
      "v = reduce_mean(p, axes=[1], keepdims=1); e = add(v, eps); s = sqrt(e); y = div(d, s); return y",
      ir::Op::layer_norm));
}
TEST(LayerNorm, stays_written_out_when_the_deviation_has_a_second_reader) {
  EXPECT_FALSE(finds(kLayer + "z = neg(d); return y, z", ir::Op::layer_norm));
}
TEST(LayerNorm, stays_written_out_when_the_variance_is_a_result) {
  EXPECT_FALSE(finds(kLayer + "return y, v", ir::Op::layer_norm));
  EXPECT_FALSE(finds(kLayer + "return y, v", ir::Op::rms_norm));
}
TEST(LayerNorm, of_another_tensors_mean_is_none) {
  EXPECT_FALSE(
      finds("x: f32[4,8]; w: f32[4,8]; eps: const f32[] {0.5}; m = reduce_mean(w, axes=[1], keepdims=1); d = "
            "sub(x, m); p = mul(d, d); "
            "v = reduce_mean(p, axes=[1], keepdims=1); e = add(v, eps); s = sqrt(e); y = div(d, s); return y",
            ir::Op::layer_norm));
}
TEST(LayerNorm, does_not_take_a_residual_for_its_bias) {
  EXPECT_BECOMES(kLayer + "w: f32[4,8]; r = neg(w); z = add(y, r); return z",
                 "x: f32[4,8]; w: f32[4,8]; r = neg(w); y = layer_norm(x, axis=1, "
                 "epsilon=0.0010000000474974513); z = add(y, r); return z");
}
TEST(LayerNorm, does_not_take_a_scale_by_rows) {
  EXPECT_BECOMES(kLayer + "g: f32[4,1]; z = mul(y, g); return z",
                 "x: f32[4,8]; g: f32[4,1]; y = layer_norm(x, axis=1, epsilon=0.0010000000474974513); z = "
                 "mul(y, g); return z");
}
TEST(LayerNorm, whose_unscaled_result_is_read_keeps_its_scale_outside) {
  EXPECT_BECOMES(kLayer + "g: f32[8]; z = mul(y, g); return z, y",
                 "x: f32[4,8]; g: f32[8]; y = layer_norm(x, axis=1, epsilon=0.0010000000474974513); z = "
                 "mul(y, g); return z, y");
}

const std::string kRms =
    "x: f32[4,8]; eps: const f32[] {0.5}; p = mul(x, x); v = reduce_mean(p, axes=[1], keepdims=1); e = "
    "add(v, eps); ";

TEST(RmsNorm, is_found_in_its_spellings) {
  const auto found = "x: f32[4,8]; y = rms_norm(x, axis=1, epsilon=0.5); return y";
  EXPECT_BECOMES(kRms + "s = sqrt(e); y = div(x, s); return y", found);
  EXPECT_BECOMES(kRms + "s = sqrt(e); r = reciprocal(s); y = mul(x, r); return y", found);
  EXPECT_BECOMES(kRms + "one: const f32[] {1}; s = sqrt(e); r = div(one, s); y = mul(r, x); return y", found);
  EXPECT_BECOMES(kRms + "h: const f32[] {-0.5}; r = pow(e, h); y = mul(x, r); return y", found);
}
TEST(RmsNorm, is_found_with_the_mean_as_a_sum) {
  EXPECT_BECOMES(
      "x: f32[4,8]; eps: const f32[] {0.5}; n: const f32[] {8}; p = mul(x, x); t = reduce_sum(p, axes=[1], "
      "keepdims=1); v = div(t, n); "
      "e = add(v, eps); s = sqrt(e); y = div(x, s); return y",
      "x: f32[4,8]; y = rms_norm(x, axis=1, epsilon=0.5); return y");
}
TEST(RmsNorm, is_not_a_sum_over_another_count) {
  EXPECT_FALSE(
      finds("x: f32[4,8]; eps: const f32[] {0.5}; n: const f32[] {7}; p = mul(x, x); t = reduce_sum(p, "
            "axes=[1], keepdims=1); v = div(t, n); "
            "e = add(v, eps); s = sqrt(e); y = div(x, s); return y",
            ir::Op::rms_norm));
}
TEST(RmsNorm, of_a_wider_copy_with_a_constant_scale_in_the_narrow_type) {
  EXPECT_BECOMES(
      "x: f16[4,2]; g: const f16[2] {1, 2}; eps: const f32[] {0.5}; c = cast(x): f32; p = mul(c, c); "
      "v = reduce_mean(p, axes=[1], keepdims=1); e = add(v, eps); s = sqrt(e); y = div(c, s); n = cast(y): "
      "f16; z = mul(n, g); return z",
      "x: f16[4,2]; g: const f32[2] {1, 2}; c = cast(x): f32; y = rms_norm(c, g, axis=1, epsilon=0.5); z = "
      "cast(y): f16; return z");
}
TEST(RmsNorm, of_one_tensor_by_another_is_none) {
  EXPECT_FALSE(finds(kRms + "w: f32[4,8]; s = sqrt(e); y = div(w, s); return y", ir::Op::rms_norm));
}
TEST(RmsNorm, stays_written_out_when_the_root_has_a_second_reader) {
  EXPECT_FALSE(finds(kRms + "s = sqrt(e); y = div(x, s); z = neg(s); return y, z", ir::Op::rms_norm));
}
TEST(RmsNorm, is_no_norm_of_integers) {
  EXPECT_FALSE(
      finds("x: i32[4,8]; eps: const i32[] {1}; p = mul(x, x); v = reduce_mean(p, axes=[1], keepdims=1); e = "
            "add(v, eps); "
            "c = cast(e): f32; s = sqrt(c); f = cast(x): f32; y = div(f, s); return y",
            ir::Op::rms_norm));
}

}  // namespace
}  // namespace rtx::fuse

#include "fuse/expectation_testing.h"

namespace rtx::fuse {
namespace {

const std::string kInputs = "q: f32[2,3,4,8]; k: f32[2,3,6,8]; v: f32[2,3,6,5]; c: const f32[] {0.5}; ";
const std::string kPlain = "q: f32[2,3,4,8]; k: f32[2,3,6,8]; v: f32[2,3,6,5]; ";
const std::string kInf = "floor: const f32[] {-inf}; ";

std::string attention(std::string_view operands, std::string_view attributes) {
  return "y = attention(" + std::string(operands) + ", empty_row_nan=1, " + std::string(attributes) +
         "); return y";
}

TEST(Attention, is_found_with_the_scale_anywhere) {
  const std::string half = kPlain + attention("q, k, v", "scale=0.5");
  EXPECT_BECOMES(kInputs +
                     "t = transpose(k, perm=[0,1,3,2]); s = matmul(q, t); a = mul(s, c); p = softmax(a, "
                     "axis=3); y = matmul(p, v); return y",
                 half);
  EXPECT_BECOMES(
      kInputs +
          "a = mul(c, q); s = matmul(a, k, trans_b=1); p = softmax(s, axis=3); y = matmul(p, v); return y",
      half);
  EXPECT_BECOMES(kInputs +
                     "two: const f32[] {2}; s = matmul(q, k, trans_b=1); a = div(s, two); p = softmax(a, "
                     "axis=3); y = matmul(p, v); return y",
                 half);
  EXPECT_BECOMES(kInputs +
                     "a = mul(q, c); t = transpose(k, perm=[0,1,3,2]); b = mul(t, c); s = matmul(a, b); p = "
                     "softmax(s, axis=3); "
                     "y = matmul(p, v); return y",
                 kPlain + attention("q, k, v", "scale=0.25"));
}
TEST(Attention, keeps_the_transposes_of_its_heads) {
  EXPECT_BECOMES(
      "a: f32[2,4,3,8]; b: f32[2,6,3,8]; v: f32[2,3,6,5]; q = transpose(a, perm=[0,2,1,3]); t = transpose(b, "
      "perm=[0,2,3,1]); "
      "s = matmul(q, t); p = softmax(s, axis=3); y = matmul(p, v); return y",
      "a: f32[2,4,3,8]; b: f32[2,6,3,8]; v: f32[2,3,6,5]; q = transpose(a, perm=[0,2,1,3]); k = transpose(b, "
      "perm=[0,2,1,3]); " +
          attention("q, k, v", "scale=1.0"));
}
TEST(Attention, of_three_dimensions_has_one_batch) {
  EXPECT_BECOMES(
      "q: f32[3,4,8]; k: f32[3,6,8]; v: f32[3,6,5]; s = matmul(q, k, trans_b=1); p = softmax(s, axis=2); y = "
      "matmul(p, v); return y",
      "q: f32[3,4,8]; k: f32[3,6,8]; v: f32[3,6,5]; a = reshape(q): [1,3,4,8]; b = reshape(k): [1,3,6,8]; d "
      "= reshape(v): [1,3,6,5]; "
      "e = attention(a, b, d, scale=1.0, empty_row_nan=1); y = reshape(e): [3,4,5]; return y");
}
TEST(Attention, takes_an_added_mask_as_it_is) {
  EXPECT_BECOMES(kInputs +
                     "m: f32[2,1,1,6]; s = matmul(q, k, trans_b=1); a = mul(s, c); b = add(a, m); p = "
                     "softmax(b, axis=3); y = matmul(p, v); return y",
                 kPlain + "m: f32[2,1,1,6]; " + attention("q, k, v, m", "scale=0.5"));
}
TEST(Attention, takes_a_selected_mask_of_minus_infinity_as_bool) {
  EXPECT_BECOMES(kInputs + kInf +
                     "m: bool[4,6]; s = matmul(q, k, trans_b=1); b = where(m, s, floor); p = softmax(b, "
                     "axis=3); y = matmul(p, v); return y",
                 kPlain + "m: bool[4,6]; " + attention("q, k, v, m", "scale=1.0"));
  EXPECT_BECOMES(kInputs + kInf +
                     "m: bool[4,6]; s = matmul(q, k, trans_b=1); b = where(m, floor, s); p = softmax(b, "
                     "axis=3); y = matmul(p, v); return y",
                 kPlain + "m: bool[4,6]; n = logical_not(m); " + attention("q, k, v, n", "scale=1.0"));
}
TEST(Attention, stays_written_out_when_a_finite_fill_depends_on_data) {
  // a row that is masked entirely attends evenly here, and gives NaN in the operator
  EXPECT_FALSE(finds(kInputs + "low: const f32[] {-1e9}; m: bool[4,6]; s = matmul(q, k, trans_b=1); b = "
                               "where(m, s, low); p = softmax(b, axis=3); "
                               "y = matmul(p, v); return y",
                     ir::Op::attention));
}
TEST(Attention, takes_a_fill_beside_which_scores_vanish_as_an_added_mask) {
  EXPECT_BECOMES(kInputs +
                     "low: const f32[] {-3e38}; m: bool[4,6]; s = matmul(q, k, trans_b=1); b = where(m, low, "
                     "s); p = softmax(b, axis=3); "
                     "y = matmul(p, v); return y",
                 kPlain +
                     "m: bool[4,6]; low: const f32[] {-3e38}; z: const f32[] {0}; n = where(m, low, z); " +
                     attention("q, k, v, n", "scale=1.0"));
}
TEST(Attention, stays_written_out_when_such_a_fill_replaces_another_mask) {
  EXPECT_FALSE(finds(kInputs + "low: const f32[] {-3e38}; m: bool[4,6]; n: f32[4,6]; s = matmul(q, k, "
                               "trans_b=1); a = add(s, n); b = where(m, low, a); "
                               "p = softmax(b, axis=3); y = matmul(p, v); return y",
                     ir::Op::attention));
}
TEST(Attention, stays_written_out_when_the_mask_itself_is_scaled) {
  EXPECT_FALSE(finds(kInputs + "m: f32[4,6]; s = matmul(q, k, trans_b=1); a = add(s, m); b = mul(a, c); p = "
                               "softmax(b, axis=3); y = matmul(p, v); return y",
                     ir::Op::attention));
}
TEST(Attention, of_two_masks_has_their_sum) {
  EXPECT_BECOMES(
      kInputs +
          "m: f32[4,6]; n: f32[2,1,1,6]; s = matmul(q, k, trans_b=1); a = add(s, m); b = add(n, a); p = "
          "softmax(b, axis=3); "
          "y = matmul(p, v); return y",
      kPlain + "m: f32[4,6]; n: f32[2,1,1,6]; o = add(n, m); " + attention("q, k, v, o", "scale=1.0"));
}

const std::string kSmall = "q: f32[1,2,2,8]; k: f32[1,2,3,8]; v: f32[1,2,3,8]; s = matmul(q, k, trans_b=1); ";
const std::string kSmallInputs = "q: f32[1,2,2,8]; k: f32[1,2,3,8]; v: f32[1,2,3,8]; ";

TEST(Attention, a_constant_triangle_is_causal) {
  EXPECT_BECOMES(kSmall +
                     "m: const f32[2,3] {0, -inf, -inf, 0, 0, -inf}; a = add(s, m); p = softmax(a, axis=3); "
                     "y = matmul(p, v); return y",
                 kSmallInputs + attention("q, k, v", "scale=1.0, causal=1"));
  EXPECT_BECOMES(kSmall +
                     "m: const bool[1,1,2,3] {1, 1, 0, 1, 1, 1}; floor: const f32[] {-inf}; a = where(m, s, "
                     "floor); p = softmax(a, axis=3); "
                     "y = matmul(p, v); return y",
                 kSmallInputs + attention("q, k, v", "scale=1.0, causal=1, causal_offset=1"));
  EXPECT_BECOMES(kSmall +
                     "m: const bool[2,3] {1, 0, 0, 1, 1, 0}; low: const f32[] {-1e4}; a = where(m, s, low); "
                     "p = softmax(a, axis=3); "
                     "y = matmul(p, v); return y",
                 kSmallInputs + attention("q, k, v", "scale=1.0, causal=1"));
}
TEST(Attention, an_almost_triangle_stays_a_mask) {
  EXPECT_BECOMES(kSmall +
                     "m: const f32[2,3] {0, -inf, -inf, -inf, 0, -inf}; a = add(s, m); p = softmax(a, "
                     "axis=3); y = matmul(p, v); return y",
                 kSmallInputs + "m: const f32[2,3] {0, -inf, -inf, -inf, 0, -inf}; " +
                     attention("q, k, v, m", "scale=1.0"));
  EXPECT_BECOMES(
      kSmall +
          "m: const f32[2,3] {0, -5, -5, 0, 0, -5}; a = add(s, m); p = softmax(a, axis=3); y = matmul(p, v); "
          "return y",
      kSmallInputs + "m: const f32[2,3] {0, -5, -5, 0, 0, -5}; " + attention("q, k, v, m", "scale=1.0"));
}
TEST(Attention, a_triangle_by_head_stays_a_mask) {
  const std::string mask = "m: const bool[1,2,2,3] {1, 0, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1}; ";
  EXPECT_BECOMES(kSmall + mask +
                     "floor: const f32[] {-inf}; a = where(m, s, floor); p = softmax(a, axis=3); y = "
                     "matmul(p, v); return y",
                 kSmallInputs + mask + attention("q, k, v, m", "scale=1.0"));
}
TEST(Attention, a_triangle_of_a_finite_fill_and_another_mask_stays_written_out) {
  EXPECT_FALSE(finds(kSmall + "m: const bool[2,3] {1, 0, 0, 1, 1, 0}; low: const f32[] {-1e4}; n: "
                              "f32[1,1,1,3]; a = where(m, s, low); b = add(a, n); "
                              "p = softmax(b, axis=3); y = matmul(p, v); return y",
                     ir::Op::attention));
}
TEST(Attention, a_triangle_added_to_the_mask_is_causal_and_the_mask_stays) {
  EXPECT_BECOMES(kSmall +
                     "n: f32[1,1,2,3]; m: const f32[2,3] {0, -inf, -inf, 0, 0, -inf}; o = add(n, m); a = "
                     "add(s, o); p = softmax(a, axis=3); "
                     "y = matmul(p, v); return y",
                 kSmallInputs + "n: f32[1,1,2,3]; " + attention("q, k, v, n", "scale=1.0, causal=1"));
}
TEST(Attention, rows_that_the_chain_clears_are_zeros) {
  EXPECT_BECOMES(
      kSmall +
          "n: f32[2,3]; floor: const f32[] {-inf}; zero: const f32[] {0}; a = add(s, n); p = softmax(a, "
          "axis=3); "
          "m = reduce_max(n, axes=[1], keepdims=1); e = equal(m, floor); w = where(e, zero, p); y = "
          "matmul(w, v); return y",
      kSmallInputs + "n: f32[2,3]; y = attention(q, k, v, n, scale=1.0, empty_row_nan=0); return y");
}
TEST(Attention, stays_written_out_when_the_cleared_rows_are_those_of_another_mask) {
  EXPECT_FALSE(finds(kSmall + "n: f32[2,3]; o: f32[2,3]; floor: const f32[] {-inf}; zero: const f32[] {0}; a "
                              "= add(s, n); p = softmax(a, axis=3); "
                              "m = reduce_max(o, axes=[1], keepdims=1); e = equal(m, floor); w = where(e, "
                              "zero, p); y = matmul(w, v); return y",
                     ir::Op::attention));
}
TEST(Attention, has_a_soft_cap) {
  EXPECT_BECOMES(kSmall +
                     "cap: const f32[] {4}; n: f32[2,3]; d = div(s, cap); t = tanh(d); m = mul(t, cap); a = "
                     "add(m, n); p = softmax(a, axis=3); "
                     "y = matmul(p, v); return y",
                 kSmallInputs + "n: f32[2,3]; " + attention("q, k, v, n", "scale=1.0, softcap=4.0"));
}
TEST(Attention, stays_written_out_when_the_mask_is_capped) {
  EXPECT_FALSE(finds(kSmall + "cap: const f32[] {4}; n: f32[2,3]; a = add(s, n); d = div(a, cap); t = "
                              "tanh(d); m = mul(t, cap); p = softmax(m, axis=3); "
                              "y = matmul(p, v); return y",
                     ir::Op::attention));
}
TEST(Attention, reads_repeated_heads_unrepeated) {
  EXPECT_BECOMES(
      "q: f32[2,6,4,8]; k: f32[2,3,5,8]; v: f32[2,3,5,7]; a = reshape(k): [2,3,1,5,8]; b = expand(a): "
      "[2,3,2,5,8]; c = reshape(b): [2,6,5,8]; "
      "d = reshape(v): [2,3,1,5,7]; e = expand(d): [2,3,2,5,7]; f = reshape(e): [2,6,5,7]; s = matmul(q, c, "
      "trans_b=1); p = softmax(s, axis=3); "
      "y = matmul(p, f); return y",
      "q: f32[2,6,4,8]; k: f32[2,3,5,8]; v: f32[2,3,5,7]; " + attention("q, k, v", "scale=1.0"));
}
TEST(Attention, heads_that_are_tiled_instead_of_repeated_stay_so) {
  // [B,1,H,S,D] -> [B,n,H,S,D]: head h reads h mod H, not h / n
  EXPECT_BECOMES(
      "q: f32[2,6,4,8]; k: f32[2,3,5,8]; v: f32[2,6,5,7]; a = reshape(k): [2,1,3,5,8]; b = expand(a): "
      "[2,2,3,5,8]; c = reshape(b): [2,6,5,8]; "
      "s = matmul(q, c, trans_b=1); p = softmax(s, axis=3); y = matmul(p, v); return y",
      "q: f32[2,6,4,8]; k: f32[2,3,5,8]; v: f32[2,6,5,7]; a = reshape(k): [2,1,3,5,8]; b = expand(a): "
      "[2,2,3,5,8]; c = reshape(b): [2,6,5,8]; " +
          attention("q, c, v", "scale=1.0"));
}
TEST(Attention, may_run_its_softmax_in_a_wider_type) {
  EXPECT_BECOMES(
      "q: f16[1,2,4,8]; k: f16[1,2,6,8]; v: f16[1,2,6,8]; s = matmul(q, k, trans_b=1); w = cast(s): f32; p = "
      "softmax(w, axis=3); "
      "n = cast(p): f16; y = matmul(n, v); return y",
      "q: f16[1,2,4,8]; k: f16[1,2,6,8]; v: f16[1,2,6,8]; " + attention("q, k, v", "scale=1.0"));
}
TEST(Attention, stays_written_out_when_the_scores_are_narrowed) {
  EXPECT_FALSE(
      finds("q: f32[1,2,4,8]; k: f32[1,2,6,8]; v: f16[1,2,6,8]; s = matmul(q, k, trans_b=1); w = cast(s): "
            "f16; p = softmax(w, axis=3); "
            "y = matmul(p, v); return y",
            ir::Op::attention));
}
TEST(Attention, stays_written_out_when_weights_or_scores_are_read) {
  const std::string chain =
      kInputs + "s = matmul(q, k, trans_b=1); a = mul(s, c); p = softmax(a, axis=3); y = matmul(p, v); ";
  EXPECT_FALSE(finds(chain + "return y, p", ir::Op::attention));
  EXPECT_FALSE(finds(chain + "z = neg(s); return y, z", ir::Op::attention));
}
TEST(Attention, stays_written_out_when_the_softmax_is_along_the_queries) {
  EXPECT_FALSE(
      finds(kInputs + "s = matmul(q, k, trans_b=1); p = softmax(s, axis=2); y = matmul(p, v); return y",
            ir::Op::attention));
}
TEST(Attention, stays_written_out_when_the_weights_are_transposed) {
  EXPECT_FALSE(
      finds("q: f32[1,2,4,8]; k: f32[1,2,6,8]; v: f32[1,2,4,8]; s = matmul(q, k, trans_b=1); p = softmax(s, "
            "axis=3); "
            "y = matmul(p, v, trans_a=1); return y",
            ir::Op::attention));
}
TEST(Attention, stays_written_out_for_the_unfused_baseline) {
  const ir::Graph graph = ir::parse_or_die(
      kInputs +
      "s = matmul(q, k, trans_b=1); a = mul(s, c); p = softmax(a, axis=3); y = matmul(p, v); return y");
  RecogniseOptions options;
  options.attention = false;
  EXPECT_EQ(recognise(graph, options).nodes.size(), 4u);
}

}  // namespace
}  // namespace rtx::fuse

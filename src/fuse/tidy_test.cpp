#include "fuse/expectation_testing.h"

namespace rtx::fuse {
namespace {

TEST(Tidy, two_transposes_become_one_with_both_permutations) {
  EXPECT_BECOMES("x: f32[2,3,4]; a = transpose(x, perm=[1,2,0]); b = transpose(a, perm=[1,0,2]); return b",
                 "x: f32[2,3,4]; b = transpose(x, perm=[2,1,0]); return b");
}
TEST(Tidy, two_transposes_that_undo_each_other_vanish) {
  EXPECT_BECOMES(
      "x: f32[2,3,4]; a = transpose(x, perm=[1,2,0]); b = transpose(a, perm=[2,0,1]); y = neg(b); return y",
      "x: f32[2,3,4]; y = neg(x); return y");
}
TEST(Tidy, a_transpose_of_joined_transposes_meets_them) {
  EXPECT_BECOMES(
      "a: f32[2,3]; b: f32[4,3]; s = transpose(a, perm=[1,0]); t = transpose(b, perm=[1,0]); c = concat(s, "
      "t, axis=1); "
      "y = transpose(c, perm=[1,0]); return y",
      "a: f32[2,3]; b: f32[4,3]; y = concat(a, b, axis=0); return y");
}
TEST(Tidy, a_transpose_of_joined_transposes_stays_when_the_joined_value_is_read) {
  const auto text =
      "a: f32[2,3]; b: f32[4,3]; s = transpose(a, perm=[1,0]); t = transpose(b, perm=[1,0]); c = concat(s, "
      "t, axis=1); "
      "y = transpose(c, perm=[1,0]); return y, c";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, a_transpose_around_dimensions_of_one_is_a_reshape) {
  EXPECT_BECOMES("x: f32[2,1,4]; a = transpose(x, perm=[1,0,2]); y = neg(a); return y",
                 "x: f32[2,1,4]; a = reshape(x): [1,2,4]; y = neg(a); return y");
}
TEST(Tidy, a_transpose_around_dimensions_of_one_stays_when_its_input_is_strided) {
  const auto text = "x: f32[2,1,4] strides [1,1,2]; a = transpose(x, perm=[1,0,2]); y = neg(a); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, reshapes_in_a_row_become_the_last) {
  EXPECT_BECOMES("x: f32[2,6]; a = reshape(x): [12]; b = reshape(a): [3,4]; y = neg(b); return y",
                 "x: f32[2,6]; b = reshape(x): [3,4]; y = neg(b); return y");
}
TEST(Tidy, an_inner_reshape_that_is_a_result_stays_a_result) {
  EXPECT_BECOMES("x: f32[2,6]; a = reshape(x): [12]; b = reshape(a): [3,4]; y = neg(b); return y, a",
                 "x: f32[2,6]; a = reshape(x): [12]; b = reshape(x): [3,4]; y = neg(b); return y, a");
}
TEST(Tidy, a_cast_up_and_down_vanishes) {
  EXPECT_BECOMES("x: f16[8]; a = cast(x): f32; b = cast(a): f16; y = neg(b); return y",
                 "x: f16[8]; y = neg(x); return y");
}
TEST(Tidy, a_cast_down_and_up_stays) {
  const auto text = "x: f32[8]; a = cast(x): f16; b = cast(a): f32; y = neg(b); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, a_cast_between_the_16_bit_types_is_not_exact) {
  const auto text = "x: f16[8]; a = cast(x): bf16; b = cast(a): f16; y = neg(b); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, a_cast_up_and_down_with_an_operator_between_stays) {
  const auto text = "x: f16[8]; a = cast(x): f32; b = neg(a); c = cast(b): f16; return c";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, i32_through_f32_is_not_exact_but_through_f64_is) {
  const auto text = "x: i32[8]; a = cast(x): f32; b = cast(a): i32; y = neg(b); return y";
  EXPECT_BECOMES(text, text);
  EXPECT_BECOMES("x: i32[8]; a = cast(x): f64; b = cast(a): i32; y = neg(b); return y",
                 "x: i32[8]; y = neg(x); return y");
}
TEST(Tidy, a_product_with_one_vanishes) {
  EXPECT_BECOMES("x: f32[8]; c: const f32[] {1}; a = mul(c, x); y = neg(a); return y",
                 "x: f32[8]; y = neg(x); return y");
}
TEST(Tidy, a_product_with_ones_that_widens_the_shape_stays) {
  const auto text = "x: f32[8]; c: const f32[2,1] {1, 1}; a = mul(c, x); y = neg(a); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, adding_zero_stays_because_it_changes_minus_zero) {
  const auto text = "x: f32[8]; c: const f32[] {0}; a = add(x, c); y = neg(a); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, adding_zero_to_integers_vanishes) {
  EXPECT_BECOMES("x: i64[8]; c: const i64[] {0}; a = add(x, c); y = neg(a); return y",
                 "x: i64[8]; y = neg(x); return y");
}
TEST(Tidy, subtracting_zero_vanishes_and_subtracting_from_zero_stays) {
  EXPECT_BECOMES("x: f32[8]; c: const f32[] {0}; a = sub(x, c); y = neg(a); return y",
                 "x: f32[8]; y = neg(x); return y");
  const auto text = "x: f32[8]; c: const f32[] {0}; a = sub(c, x); y = neg(a); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, one_over_x_stays) {
  const auto text = "x: f32[8]; c: const f32[] {1}; a = div(c, x); return a";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, a_slice_that_reverses_stays) {
  const auto text = "x: f32[8]; a = slice(x, starts=[7], steps=[-1]): [8]; y = neg(a); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, a_slice_of_everything_vanishes) {
  EXPECT_BECOMES("x: f32[8]; a = slice(x, starts=[0], steps=[1]): [8]; y = neg(a); return y",
                 "x: f32[8]; y = neg(x); return y");
}
TEST(Tidy, an_expand_before_an_operator_that_broadcasts_vanishes) {
  EXPECT_BECOMES("x: f32[4,8]; m: f32[8]; e = expand(m): [4,8]; y = add(x, e); return y",
                 "x: f32[4,8]; m: f32[8]; y = add(x, m); return y");
}
TEST(Tidy, an_expand_that_alone_widens_the_result_stays) {
  const auto text = "x: f32[8]; m: f32[8]; e = expand(m): [4,8]; y = add(x, e); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, a_square_is_a_product_and_a_square_root_by_pow_stays) {
  EXPECT_BECOMES("x: f32[8]; c: const f32[] {2}; y = pow(x, c); return y",
                 "x: f32[8]; y = mul(x, x); return y");
  const auto text = "x: f32[8]; c: const f32[] {0.5}; y = pow(x, c); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, equal_nodes_become_one_and_different_attributes_keep_two) {
  EXPECT_BECOMES("x: f32[2,8]; a = exp(x); b = exp(x); y = add(a, b); return y",
                 "x: f32[2,8]; a = exp(x); y = add(a, a); return y");
  const auto text =
      "x: f32[8,8]; a = reduce_sum(x, axes=[0], keepdims=0); b = reduce_sum(x, axes=[1], keepdims=0); y = "
      "add(a, b); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, two_casts_to_different_types_are_not_one) {
  const auto text = "x: f32[8]; a = cast(x): f16; b = cast(x): bf16; return a, b";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, where_of_a_known_condition_is_its_branch) {
  EXPECT_BECOMES("x: f32[8]; z: f32[8]; c: const bool[] {0}; w = where(c, z, x); y = neg(w); return y",
                 "x: f32[8]; z: f32[8]; y = neg(x); return y");
}
TEST(Tidy, where_of_a_known_condition_stays_when_the_other_branch_widens_it) {
  const auto text = "x: f32[8]; z: f32[2,8]; c: const bool[] {0}; w = where(c, z, x); y = neg(w); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Tidy, a_result_keeps_its_name_when_its_node_vanishes) {
  const ir::Graph found =
      recognise(ir::parse_or_die("x: f32[8]; c: const f32[] {1}; y = mul(x, c); return y"));
  EXPECT_EQ(found.nodes.size(), 0u);
  EXPECT_EQ(found.output_name(0), "y");
}
TEST(Tidy, a_strided_input_is_not_made_a_result) {
  const auto text = "x: f32[8] strides [2]; c: const f32[] {1}; y = mul(x, c); return y";
  EXPECT_BECOMES(text, text);
}

TEST(Matmul, a_transposed_operand_is_read_as_it_lies) {
  EXPECT_BECOMES("a: f32[2,3,4]; b: f32[2,5,4]; t = transpose(b, perm=[0,2,1]); y = matmul(a, t); return y",
                 "a: f32[2,3,4]; b: f32[2,5,4]; y = matmul(a, b, trans_b=1); return y");
  EXPECT_BECOMES("a: f32[4,3]; b: f32[4,5]; t = transpose(a, perm=[1,0]); y = matmul(t, b); return y",
                 "a: f32[4,3]; b: f32[4,5]; y = matmul(a, b, trans_a=1); return y");
}
TEST(Matmul, a_transpose_that_also_moves_heads_keeps_that_part) {
  EXPECT_BECOMES(
      "q: f32[1,2,3,4]; k: f32[1,6,2,4]; t = transpose(k, perm=[0,2,3,1]); y = matmul(q, t); return y",
      "q: f32[1,2,3,4]; k: f32[1,6,2,4]; t = transpose(k, perm=[0,2,1,3]); y = matmul(q, t, trans_b=1); "
      "return y");
}
TEST(Matmul, a_transpose_that_only_moves_heads_stays) {
  const auto text =
      "q: f32[1,2,3,4]; v: f32[1,4,2,6]; t = transpose(v, perm=[0,2,1,3]); y = matmul(q, t); return y";
  EXPECT_BECOMES(text, text);
}
TEST(Matmul, a_transpose_with_a_second_reader_stays) {
  const auto text =
      "a: f32[3,4]; b: f32[5,4]; t = transpose(b, perm=[1,0]); y = matmul(a, t); z = neg(t); return y, z";
  EXPECT_BECOMES(text, text);
}
TEST(Matmul, a_transpose_that_is_a_result_stays) {
  const auto text = "a: f32[3,4]; b: f32[5,4]; t = transpose(b, perm=[1,0]); y = matmul(a, t); return y, t";
  EXPECT_BECOMES(text, text);
}
TEST(Matmul, a_transposed_result_swaps_the_operands) {
  EXPECT_BECOMES("a: f32[3,4]; b: f32[4,5]; m = matmul(a, b); y = transpose(m, perm=[1,0]); return y",
                 "a: f32[3,4]; b: f32[4,5]; y = matmul(b, a, trans_a=1, trans_b=1); return y");
}
TEST(Matmul, a_transpose_behind_a_cast_is_read_as_it_lies_too) {
  EXPECT_BECOMES(
      "a: f32[3,4]; b: f16[5,4]; t = transpose(b, perm=[1,0]); c = cast(t): f32; y = matmul(a, c); return y",
      "a: f32[3,4]; b: f16[5,4]; c = cast(b): f32; y = matmul(a, c, trans_b=1); return y");
}

}  // namespace
}  // namespace rtx::fuse

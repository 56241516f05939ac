#include "fuse/expectation_testing.h"

namespace rtx::fuse {
namespace {

const std::string kX = "x: f32[2,3,5,4]; ";
const std::string kHalves =
    "x1 = slice(x, starts=[0,0,0,0], steps=[1,1,1,1]): [2,3,5,2]; x2 = slice(x, starts=[0,0,0,2], "
    "steps=[1,1,1,1]): [2,3,5,2]; ";
const std::string kTurn =
    "a = mul(c, x1); b = mul(s, x2); r = sub(a, b); d = mul(s, x1); e = mul(c, x2); i = add(d, e); ";
const std::string kTables = "c: f32[2,1,5,2]; s: f32[2,1,5,2]; ";

TEST(Rotary, is_found_as_real_and_imaginary_halves) {
  EXPECT_BECOMES(kX + kTables + kHalves + kTurn + "y = concat(r, i, axis=3); return y",
                 kX + kTables +
                     "cc = reshape(c): [2,5,2]; ss = reshape(s): [2,5,2]; y = rotary(x, cc, ss, "
                     "interleaved=0, rotary_dim=4); return y");
}
TEST(Rotary, is_found_interleaved) {
  EXPECT_BECOMES(kX + kTables +
                     "x1 = slice(x, starts=[0,0,0,0], steps=[1,1,1,2]): [2,3,5,2]; x2 = slice(x, "
                     "starts=[0,0,0,1], steps=[1,1,1,2]): [2,3,5,2]; " +
                     kTurn +
                     "f = reshape(r): [2,3,5,2,1]; g = reshape(i): [2,3,5,2,1]; h = concat(f, g, axis=4); y "
                     "= reshape(h): [2,3,5,4]; return y",
                 kX + kTables +
                     "cc = reshape(c): [2,5,2]; ss = reshape(s): [2,5,2]; y = rotary(x, cc, ss, "
                     "interleaved=1, rotary_dim=4); return y");
}
TEST(Rotary, leaves_the_other_columns_as_they_are) {
  EXPECT_BECOMES("x: f32[2,3,5,7]; " + kTables +
                     "q = slice(x, starts=[0,0,0,0], steps=[1,1,1,1]): [2,3,5,4]; z = slice(x, "
                     "starts=[0,0,0,4], steps=[1,1,1,1]): [2,3,5,3]; "
                     "x1 = slice(q, starts=[0,0,0,0], steps=[1,1,1,1]): [2,3,5,2]; x2 = slice(q, "
                     "starts=[0,0,0,2], steps=[1,1,1,1]): [2,3,5,2]; " +
                     kTurn + "w = concat(r, i, axis=3); y = concat(w, z, axis=3); return y",
                 "x: f32[2,3,5,7]; " + kTables +
                     "cc = reshape(c): [2,5,2]; ss = reshape(s): [2,5,2]; y = rotary(x, cc, ss, "
                     "interleaved=0, rotary_dim=4); return y");
}
TEST(Rotary, is_found_with_tables_of_full_width_whose_halves_are_equal) {
  EXPECT_BECOMES(
      kX + "h: f32[5,2]; k: f32[5,2]; c = concat(h, h, axis=1); s = concat(k, k, axis=1); " + kHalves +
          "n = neg(x2); t = concat(n, x1, axis=3); a = mul(x, c); b = mul(t, s); y = add(a, b); return y",
      kX + "h: f32[5,2]; k: f32[5,2]; hh = reshape(h): [1,5,2]; kk = reshape(k): [1,5,2]; "
           "y = rotary(x, hh, kk, interleaved=0, rotary_dim=4); return y");
}
TEST(Rotary, stays_written_out_when_the_halves_of_its_tables_may_differ) {
  EXPECT_FALSE(finds(
      kX + "c: f32[5,4]; s: f32[5,4]; " + kHalves +
          "n = neg(x2); t = concat(n, x1, axis=3); a = mul(x, c); b = mul(t, s); y = add(a, b); return y",
      ir::Op::rotary));
}
TEST(Rotary, stays_written_out_when_the_halves_are_swapped_or_the_sign_is_elsewhere) {
  EXPECT_FALSE(finds(kX + kTables + kHalves + kTurn + "y = concat(i, r, axis=3); return y", ir::Op::rotary));
  EXPECT_FALSE(finds(
      kX + kTables + kHalves +
          "a = mul(c, x1); b = mul(s, x2); r = add(a, b); d = mul(s, x1); e = mul(c, x2); i = sub(d, e); "
          "y = concat(r, i, axis=3); return y",
      ir::Op::rotary));
}
TEST(Rotary, stays_written_out_when_a_half_has_a_second_reader) {
  EXPECT_FALSE(finds(kX + kTables + kHalves + kTurn + "y = concat(r, i, axis=3); z = neg(x1); return y, z",
                     ir::Op::rotary));
}
TEST(Rotary, stays_written_out_when_its_tables_differ_by_head) {
  EXPECT_FALSE(finds(
      kX + "c: f32[2,3,5,2]; s: f32[2,3,5,2]; " + kHalves + kTurn + "y = concat(r, i, axis=3); return y",
      ir::Op::rotary));
}
TEST(Rotary, with_heads_behind_rows_is_found_where_a_transpose_stands_at_its_end) {
  const std::string inner =
      "c: f32[2,3,1,2]; s: f32[2,3,1,2]; " + kHalves + kTurn + "y = concat(r, i, axis=3); ";
  EXPECT_BECOMES(kX + inner + "z = transpose(y, perm=[0,2,1,3]); return z",
                 kX + "c: f32[2,3,1,2]; s: f32[2,3,1,2]; cc = reshape(c): [2,3,2]; ss = reshape(s): [2,3,2]; "
                      "t = transpose(x, perm=[0,2,1,3]); "
                      "z = rotary(t, cc, ss, interleaved=0, rotary_dim=4); return z");
  EXPECT_FALSE(finds(kX + inner + "return y", ir::Op::rotary));
}

TEST(Tidy, slices_of_slices_and_concats_of_concats_become_one) {
  EXPECT_BECOMES(
      "x: f32[20]; a = slice(x, starts=[18], steps=[-2]): [9]; b = slice(a, starts=[1], steps=[3]): [3]; y = "
      "neg(b); return y",
      "x: f32[20]; b = slice(x, starts=[16], steps=[-6]): [3]; y = neg(b); return y");
  EXPECT_BECOMES(
      "x: f32[2]; y: f32[3]; z: f32[0]; a = concat(x, y, axis=0); b = concat(z, a, x, axis=0); return b",
      "x: f32[2]; y: f32[3]; z: f32[0]; b = concat(x, y, x, axis=0); return b");
}
TEST(Tidy, concats_along_different_axes_and_shared_ones_stay) {
  const auto text = "x: f32[2,2]; a = concat(x, x, axis=0); b = concat(a, a, axis=1); return b";
  EXPECT_BECOMES(text, text);
  const auto shared = "x: f32[2]; y: f32[3]; a = concat(x, y, axis=0); b = concat(a, x, axis=0); return a, b";
  EXPECT_BECOMES(shared, shared);
}

}  // namespace
}  // namespace rtx::fuse

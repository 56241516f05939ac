#include "kernels/movement/movement.h"

#include <gtest/gtest.h>

#include "kernels/family_testing.h"

namespace rtx::kernels {
namespace {

using movement::Family;
using testing::TestCase;

TEST(Movement, transposes_of_every_element_size) {
  std::vector<TestCase> cases;
  for (const char* type : {"f64", "f32", "f16", "i8", "bool", "i64"}) {
    const std::string t(type);
    cases.push_back({.text = "x: " + t + "[37,41]; r = transpose(x, perm=[1,0]); return r"});
    cases.push_back({.text = "x: " + t + "[64,32]; r = transpose(x, perm=[1,0]); return r", .unaligned = true});
    cases.push_back({.text = "x: " + t + "[2,9,3,16]; r = transpose(x, perm=[0,2,1,3]); return r"});
    cases.push_back({.text = "x: " + t + "[3,10,17,2]; r = transpose(x, perm=[3,1,0,2]); return r"});
  }
  cases.push_back({.text = "x: f32[523,517]; r = transpose(x, perm=[1,0]); return r"});  // far enough for prefetching
  cases.push_back({.text = "x: f32[0,4]; r = transpose(x, perm=[1,0]); return r"});
  cases.push_back({.text = "x: f32[1,7]; r = transpose(x, perm=[1,0]); return r"});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Movement, slices_expands_and_reshapes) {
  EXPECT_EQ(testing::check_everywhere<Family>({{.text = "x: f32[10,7]; r = slice(x, starts=[1,0], steps=[2,1]): [4,7]; return r"},
                                    {.text = "x: f32[10,7]; r = slice(x, starts=[9,6], steps=[-1,-2]): [10,4]; return r"},
                                    {.text = "x: f16[3,1]; r = expand(x): [2,3,19]; return r"},
                                    {.text = "x: i64[6,4]; r = reshape(x): [3,8]; return r"},
                                    {.text = "x: bool[]; r = expand(x): [5,5]; return r"},
                                    {.text = "x: f32[6,35]; a = transpose(x, perm=[1,0]); r = reshape(a): [14,15]; return r"},
                                    {.text = "x: f32[4,9] strides [1,4]; r = reshape(x): [36]; return r"},
                                    {.text = "x: f32[1,8,768]; a = reshape(x): [1,8,12,64]; b = transpose(a, perm=[0,2,1,3]); q = slice(b, starts=[0,0,0,0], steps=[1,1,1,1]): "
                                             "[1,12,8,32]; k = slice(b, starts=[0,0,0,32], steps=[1,1,1,1]): [1,12,8,32]; return q, k"}}),
            "");
}

TEST(Movement, concats_become_pieces) {
  EXPECT_EQ(testing::check_everywhere<Family>({{.text = "x: f32[3,5]; y: f32[3,4]; z: f32[3,1]; r = concat(x, y, z, axis=1); return r"},
                                    {.text = "x: f32[3,0]; y: f32[3,4]; r = concat(x, y, axis=1); return r"},
                                    {.text = "x: f16[1,2,3,8]; y: f16[1,2,5,8]; r = concat(x, y, axis=2); return r"},
                                    {.text = "x: i64[5]; y: i64[3]; a = concat(x, y, axis=0); r = reshape(a): [2,4]; return r"},
                                    {.text = "x: f32[3,6]; y: f32[3,6]; a = concat(x, y, axis=0); t = transpose(a, perm=[1,0]); return t"}}),
            "");
}

TEST(Movement, gathers_with_negative_indices) {
  EXPECT_EQ(testing::check_everywhere<Family>({{.text = "x: f32[11,16]; i: i64[2,3]; r = gather(x, i, axis=0); return r"},
                                    {.text = "x: f16[7,13]; i: i32[5]; r = gather(x, i, axis=1); return r"},
                                    {.text = "x: f32[7,13]; i: i64[]; r = gather(x, i, axis=1); return r"},
                                    {.text = "x: f32[6,5,4]; i: i64[3,2]; r = gather_nd(x, i, batch_dims=0); return r"},
                                    {.text = "x: i32[2,6,9]; i: i64[2,4,1]; r = gather_nd(x, i, batch_dims=1); return r"},
                                    {.text = "x: bool[9,9]; i: i64[9]; r = gather(x, i, axis=0); return r"},
                                    {.text = "x: f32[50,24]; i: i64[4]; g = gather(x, i, axis=0); t = transpose(g, perm=[1,0]); return t"}}),
            "");
}

TEST(Movement, triangles) {
  EXPECT_EQ(testing::check_everywhere<Family>({{.text = "x: f32[9,9]; r = trilu(x, upper=1, k=0); return r"},
                                    {.text = "x: f32[2,7,12]; r = trilu(x, upper=0, k=2); return r"},
                                    {.text = "x: i64[5,11]; r = trilu(x, upper=1, k=-3); return r"},
                                    {.text = "x: bool[16,16]; r = trilu(x, upper=0, k=20); return r"}}),
            "");
}

TEST(Movement, scatters_apply_in_order) {
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "f64", "f16", "bf16", "i64", "u8"})
    for (const char* reduction : {"0", "1", "2", "3", "4"})
      cases.push_back({.text = "x: " + std::string(type) + "[6,7]; i: i64[9,1]; u: " + type + "[9,7]; r = scatter_nd(x, i, u, reduction=" + reduction + "); return r",
                       .low = 0.5, .high = 2});
  cases.push_back({.text = "x: f32[4,5,300]; i: i64[7,2]; u: f32[7,300]; r = scatter_nd(x, i, u, reduction=1); return r"});
  cases.push_back({.text = "x: bool[4,5]; i: i64[3,2]; u: bool[3]; r = scatter_nd(x, i, u, reduction=0); return r"});
  cases.push_back({.text = "x: f32[4,5]; i: i64[0,2]; u: f32[0]; r = scatter_nd(x, i, u, reduction=0); return r"});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Movement, rotary_turns_pairs_of_columns) {
  EXPECT_EQ(testing::check_everywhere<Family>({{.text = "x: f32[2,3,5,64]; c: f32[2,5,32]; s: f32[2,5,32]; y = rotary(x, c, s, interleaved=0, rotary_dim=64); return y"},
                                    {.text = "x: f32[2,3,5,64]; c: f32[1,5,32]; s: f32[1,5,32]; y = rotary(x, c, s, interleaved=1, rotary_dim=64); return y"},
                                    {.text = "x: f16[2,3,5,8]; c: f16[1,5,2]; s: f16[1,5,2]; y = rotary(x, c, s, interleaved=1, rotary_dim=4); return y"},
                                    {.text = "x: bf16[2,3,5,20]; c: bf16[1,5,6]; s: bf16[1,5,6]; y = rotary(x, c, s, interleaved=0, rotary_dim=12); return y"},
                                    {.text = "x: f64[1,1,1,7]; c: f64[1,1,0]; s: f64[1,1,0]; y = rotary(x, c, s, interleaved=0, rotary_dim=0); return y"},
                                    {.text = "x: f32[1,6,4,16]; c: f32[1,6,8]; s: f32[1,6,8]; t = transpose(x, perm=[0,2,1,3]); y = rotary(t, c, s, interleaved=0, rotary_dim=16); return y"}}),
            "");
}

TEST(Movement, candidates_give_the_same_bits) {
  EXPECT_EQ(testing::check_candidates<Family>("x: f32[3,70,130]; r = transpose(x, perm=[0,2,1]); return r"), "");
  EXPECT_EQ(testing::check_candidates<Family>("x: bf16[70,130]; y: bf16[70,2]; r = concat(x, y, axis=1); return r", 4), "");
}

TEST(Movement, caches_take_fresh_rows) {
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "f16", "u8", "f64"}) {
    const std::string t(type);
    cases.push_back({.text = "c: " + t + "[2,3,9,5]; f: " + t +
                             "[2,3,2,5]; s: i64[2]; y = tensor_scatter(c, f, s, axis=2); return y",
                     .fill = [](size_t input, int64_t i) {
                       return input == 2 ? (i == 0 ? 7.0 : 3.0) : static_cast<double>(i % 50);
                     }});
    cases.push_back(
        {.text = "c: " + t + "[3,4,8]; f: " + t +
                 "[3,4,8]; s: i64[3]; y = tensor_scatter(c, f, s, axis=1); return y",
         .fill = [](size_t input, int64_t i) { return input == 2 ? 0.0 : static_cast<double>(i % 50); }});
    cases.push_back({.text = "c: " + t + "[2,7,3]; f: " + t +
                             "[2,4,3]; s: i64[2]; y = tensor_scatter(c, f, s, axis=1, circular=1); return y",
                     .fill = [](size_t input, int64_t i) {
                       return input == 2 ? (i == 0 ? 5.0 : -3.0) : static_cast<double>(i % 50);
                     }});
  }
  cases.push_back(
      {.text = "c: f32[2,0,3]; f: f32[2,0,3]; s: i64[2]; y = tensor_scatter(c, f, s, axis=1); return y"});
  cases.push_back(
      {.text = "c: f32[2,4,3]; f: f32[2,0,3]; s: i64[2]; y = tensor_scatter(c, f, s, axis=1); return y"});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Movement, caches_take_rows_that_are_a_view) {
  const auto fill = [](size_t input, int64_t i) {
    return input == 2 ? (i == 0 ? 7.0 : 3.0) : static_cast<double>(i % 97);
  };
  std::vector<TestCase> cases;
  // Heads of a projection, some of its columns; inputs in the order in which the region meets them, so the
  // cache is not always first.
  for (const char* type : {"f32", "bf16", "u8"})
    cases.push_back({.text = "p: " + std::string(type) + "[2,2,24]; c: " + type +
                             "[2,3,9,5]; s: i64[2]; k = slice(p, starts=[0,0,6], steps=[1,1,1]): [2,2,15]; h "
                             "= reshape(k): [2,2,3,5]; f = transpose(h, perm=[0,2,1,3]); "
                             "y = tensor_scatter(c, f, s, axis=2); return y",
                     .fill = fill});
  cases.push_back({.text = "p: f16[2,3,8]; c: f16[2,3,7,4]; s: i64[2]; k = slice(p, starts=[0,0,4], "
                           "steps=[1,1,1]): [2,3,4]; f = reshape(k): [2,3,1,4]; "
                           "y = tensor_scatter(c, f, s, axis=2, circular=1); return y",
                   .fill = fill});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
  const auto why = [](const std::string& rest) {
    return testing::refusal(*erase<Family>(), "p: f32[2,2,3,5]; c: f32[2,3,9,5]; s: i64[2]; " + rest);
  };
  EXPECT_NE(why("f = transpose(p, perm=[0,2,1,3]); y = tensor_scatter(c, f, s, axis=2); z = exp(y); return z")
                .find("does not only move data"),
            std::string::npos);
  EXPECT_NE(why("f = transpose(p, perm=[0,2,1,3]); y = tensor_scatter(c, f, s, axis=2); z = transpose(y, "
                "perm=[0,2,1,3]); return z")
                .find("goes on in the region"),
            std::string::npos);
  EXPECT_NE(why("d = transpose(c, perm=[0,1,2,3]); f = transpose(p, perm=[0,2,1,3]); y = tensor_scatter(d, "
                "f, s, axis=2); return y")
                .find("made in the region"),
            std::string::npos);
}

TEST(Movement, refuses_a_scatter_that_is_not_alone) {
  EXPECT_NE(testing::refusal(*erase<Family>(), "x: f32[4,5]; i: i64[3,1]; u: f32[3,5]; s = scatter_nd(x, i, u, reduction=0); y = exp(s); return y").find("computed alone"),
            std::string::npos);
}

}  // namespace
}  // namespace rtx::kernels

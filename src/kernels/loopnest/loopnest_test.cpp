#include "kernels/loopnest/loopnest.h"

#include <gtest/gtest.h>

#include "kernels/family_testing.h"

namespace rtx::kernels {
namespace {

using loopnest::Family;
using testing::TestCase;

TEST(Loopnest, matmuls_of_any_type_shape_and_stride) {
  std::vector<TestCase> cases;
  for (const char* type : {"f64", "f32", "f16", "bf16", "i8", "i32", "i64", "u8", "u64"}) {
    const std::string t(type);
    cases.push_back({.text = "a: " + t + "[7,13]; b: " + t + "[13,9]; c = matmul(a, b); return c"});
    cases.push_back({.text = "a: " + t + "[13,7]; b: " + t + "[9,13]; c = matmul(a, b, trans_a=1, trans_b=1); return c"});
  }
  cases.push_back({.text = "a: f32[2,1,5,3]; b: f32[4,3,150]; c = matmul(a, b); return c"});
  cases.push_back({.text = "a: f32[5,0]; b: f32[0,4]; c = matmul(a, b); return c"});
  cases.push_back({.text = "a: f32[0,5]; b: f32[5,4]; c = matmul(a, b); return c"});
  cases.push_back({.text = "a: f32[6,5] strides [1,6]; b: f32[5,7] strides [20,2] offset 3; c = matmul(a, b); return c", .unaligned = true});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Loopnest, softmax_along_any_axis) {
  std::vector<TestCase> cases;
  for (const char* type : {"f64", "f32", "f16", "bf16"})
    for (const char* axis : {"0", "1", "2"}) {
      cases.push_back({.text = "x: " + std::string(type) + "[3,5,7]; y = softmax(x, axis=" + axis + "); return y"});
      cases.push_back({.text = "x: " + std::string(type) + "[3,5,7]; y = log_softmax(x, axis=" + axis + "); return y"});
    }
  cases.push_back({.text = "x: f32[3,0]; y = softmax(x, axis=1); return y"});
  cases.push_back({.text = "x: f32[1]; y = softmax(x, axis=0); return y"});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Loopnest, norms_with_statistics) {
  std::vector<TestCase> cases;
  for (const char* type : {"f64", "f32", "f16", "bf16"}) {
    const std::string t(type);
    cases.push_back({.text = "x: " + t + "[3,5,7]; g: " + t + "[7]; b: " + t + "[7]; (y, m, v) = layer_norm(x, g, b, axis=2, epsilon=1e-05); return y, m, v"});
    cases.push_back({.text = "x: " + t + "[3,5,7]; g: " + t + "[5,1]; y = rms_norm(x, g, axis=1, epsilon=1e-06); return y"});
    cases.push_back({.text = "x: " + t + "[4,9]; y = rms_norm(x, axis=1, epsilon=1e-06); return y"});
  }
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Loopnest, reductions_of_any_axes_and_type) {
  std::vector<TestCase> cases;
  for (const char* type : {"f64", "f32", "f16", "i8", "i32", "i64", "u8", "u64"})
    for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"})
      cases.push_back({.text = "x: " + std::string(type) + "[3,4,5]; y = " + op + "(x, axes=[0,2], keepdims=1); return y"});
  cases.push_back({.text = "x: bool[3,4]; y = reduce_max(x, axes=[1], keepdims=0); return y"});
  cases.push_back({.text = "x: f32[3,4]; y = reduce_sum(x, axes=[0,1], keepdims=0); return y"});
  cases.push_back({.text = "x: f32[3,0]; y = reduce_max(x, axes=[1], keepdims=0); return y"});
  cases.push_back({.text = "x: f32[3,0]; y = reduce_sum(x, axes=[1], keepdims=0); return y"});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Loopnest, rotary_embeddings) {
  EXPECT_EQ(testing::check_everywhere<Family>({{.text = "x: f32[2,3,5,8]; c: f32[2,5,4]; s: f32[2,5,4]; y = rotary(x, c, s, interleaved=0, rotary_dim=8); return y"},
                                    {.text = "x: f16[2,3,5,8]; c: f16[1,5,2]; s: f16[1,5,2]; y = rotary(x, c, s, interleaved=1, rotary_dim=4); return y"},
                                    {.text = "x: f64[1,1,1,6]; c: f64[1,1,1]; s: f64[1,1,1]; y = rotary(x, c, s, interleaved=0, rotary_dim=2); return y"}}),
            "");
}

TEST(Loopnest, attention_in_all_variants) {
  std::vector<TestCase> cases;
  for (const char* type : {"f64", "f32", "f16", "bf16"}) {
    const std::string t(type), qkv = "q: " + t + "[2,4,5,8]; k: " + t + "[2,2,7,8]; v: " + t + "[2,2,7,6]; ";
    cases.push_back({.text = qkv + "y = attention(q, k, v, scale=0.35); return y"});
    cases.push_back({.text = qkv + "y = attention(q, k, v, scale=0.35, causal=1, causal_offset=2); return y"});
    cases.push_back({.text = qkv + "y = attention(q, k, v, scale=0.35, causal=1, causal_offset=-3); return y"});
    cases.push_back({.text = qkv + "y = attention(q, k, v, scale=0.35, causal=1, causal_offset=-3, empty_row_nan=1); return y"});
    cases.push_back({.text = qkv + "y = attention(q, k, v, scale=0.35, window_left=2, window_right=1, softcap=2.5); return y"});
    cases.push_back({.text = qkv + "m: bool[2,1,5,7]; y = attention(q, k, v, m, scale=0.35); return y"});
    cases.push_back({.text = qkv + "m: " + t + "[5,7]; y = attention(q, k, v, m, scale=0.35, softcap=3.0); return y"});
  }
  cases.push_back({.text = "q: f32[1,1,0,8]; k: f32[1,1,7,8]; v: f32[1,1,7,6]; y = attention(q, k, v, scale=0.35); return y"});
  cases.push_back({.text = "q: f32[1,1,3,8]; k: f32[1,1,0,8]; v: f32[1,1,0,6]; y = attention(q, k, v, scale=0.35); return y"});
  cases.push_back({.text = "q: f32[2,1,3,8]; k: f32[2,1,6,8]; v: f32[2,1,6,6]; n: i64[2]; y = attention(q, k, v, _, n, scale=0.35); return y"});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Loopnest, refuses_several_operators_and_what_others_take) {
  EXPECT_NE(testing::refusal(*erase<Family>(), "x: f32[4]; y = exp(x); z = neg(y); return z").find("one operator"), std::string::npos);
  EXPECT_NE(testing::refusal(*erase<Family>(), "x: f32[4]; y = exp(x); return y").find("belongs to the pointwise"), std::string::npos);
}

TEST(Loopnest, candidates_give_the_same_bits) {
  EXPECT_EQ(testing::check_candidates<Family>("a: f32[70,33]; b: f32[33,20]; c = matmul(a, b); return c"), "");
}

}  // namespace
}  // namespace rtx::kernels

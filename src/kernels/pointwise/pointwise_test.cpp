#include "kernels/pointwise/pointwise.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "kernels/family_testing.h"

namespace rtx::kernels {
namespace {

using pointwise::Family;
using testing::TestCase;

std::vector<TestCase> with_shapes(const std::string& before, const std::vector<std::string>& shapes, const std::string& after) {
  std::vector<TestCase> out;
  for (const auto& shape : shapes) {
    TestCase test;
    test.text = before;
    for (size_t at; (at = test.text.find('@')) != std::string::npos;) test.text.replace(at, 1, shape);
    test.text += after;
    out.push_back(test);
  }
  return out;
}

TEST(Pointwise, chains_agree_at_ugly_sizes) {
  EXPECT_EQ(testing::check_everywhere<Family>(with_shapes("x: f32@; y: f32@; ", {"[0]", "[]", "[1]", "[7]", "[8]", "[9]", "[15]", "[17]", "[3,5,7]", "[2,0,4]", "[31,33]", "[1009]"},
                                               "a = add(x, y); b = gelu(a, tanh=0); c = mul(b, x); return c")),
            "");
}

TEST(Pointwise, every_floating_type_is_computed_in_f32_or_wider) {
  std::vector<TestCase> cases;
  for (const char* type : {"f64", "f32", "f16", "bf16"}) {
    const std::string t(type);
    for (const char* op : {"neg(x)", "abs(x)", "reciprocal(x)", "exp(x)", "erf(x)", "tanh(x)", "sigmoid(x)", "relu(x)", "gelu(x, tanh=0)", "gelu(x, tanh=1)",
                           "silu(x, alpha=1.0)", "silu(x, alpha=1.5)", "add(x, y)", "sub(x, y)", "mul(x, y)", "div(x, y)", "max(x, y)", "min(x, y)", "mod(x, y, fmod=1)"})
      cases.push_back({.text = "x: " + t + "[37]; y: " + t + "[37]; r = " + op + "; return r", .low = 0.5, .high = 3});
    for (const char* op : {"sqrt(x)", "log(x)", "pow(x, y)"})
      cases.push_back({.text = "x: " + t + "[37]; y: " + t + "[37]; r = " + op + "; return r", .low = 0.5, .high = 3});
  }
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Pointwise, integers_are_exact_and_wrap) {
  std::vector<TestCase> cases;
  for (const char* type : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}) {
    const std::string t(type);
    for (const char* op : {"add(x, y)", "sub(x, y)", "mul(x, y)", "div(x, y)", "max(x, y)", "min(x, y)", "mod(x, y, fmod=0)", "mod(x, y, fmod=1)", "pow(x, z)", "abs(x)"})
      cases.push_back({.text = "x: " + t + "[41]; y: " + t + "[41]; z: const " + t + "[1] {3}; r = " + op + "; return r", .low = -30, .high = 30});
  }
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Pointwise, booleans_and_comparisons) {
  std::vector<TestCase> cases;
  for (const char* op : {"equal(x, y)", "less(x, y)", "less_equal(x, y)", "greater(x, y)", "greater_equal(x, y)"})
    for (const char* type : {"f64", "f32", "f16", "bf16", "i8", "i32", "i64", "u8"})
      cases.push_back({.text = "x: " + std::string(type) + "[19]; y: " + type + "[19]; r = " + op + "; return r", .low = -1, .high = 1});
  for (const char* op : {"logical_and(x, y)", "logical_or(x, y)", "logical_xor(x, y)", "logical_not(x)", "equal(x, y)", "where(x, y, z)"})
    cases.push_back({.text = "x: bool[35]; y: bool[35]; z: bool[35]; r = " + std::string(op) + "; return r"});
  for (const char* type : {"f64", "f32", "f16", "i8", "i64", "u16"})
    cases.push_back({.text = "m: bool[5,1]; x: " + std::string(type) + "[5,13]; y: " + type + "[13]; r = where(m, x, y); return r"});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Pointwise, casts_truncate_toward_integers_and_do_not_round_in_between) {
  std::vector<TestCase> cases;
  const std::vector<std::string> types = {"f64", "f32", "f16", "bf16", "i8", "i32", "i64", "u8", "u32", "bool"};
  for (const auto& from : types)
    for (const auto& to : types)
      if (from != to) cases.push_back({.text = "x: " + from + "[21]; r = cast(x): " + to + "; return r", .low = 0, .high = 30});
  cases.push_back({.text = "x: f32[40]; h = cast(x): bf16; r = cast(h): f32; s = mul(r, x); return s"});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Pointwise, nan_passes_relu_clamp_max_and_min) {
  EXPECT_EQ(testing::check_everywhere<Family>({{.text = "x: f32[67]; r = relu(x); return r", .special = true},
                                    {.text = "x: f32[67]; lo: const f32[] {-1}; hi: const f32[] {1}; a = max(x, lo); r = min(a, hi); return r", .special = true},
                                    {.text = "x: f32[67]; lo: const f32[] {-1}; hi: const f32[] {1}; a = max(lo, x); r = min(hi, a); return r", .special = true},
                                    {.text = "x: f16[67]; y: f16[67]; r = max(x, y); s = min(x, y); return r, s", .special = true},
                                    {.text = "x: f32[67]; y: f32[67]; r = add(x, y); return r", .special = true}}),
            "");
}

TEST(Pointwise, broadcasts_strides_and_unaligned_views) {
  EXPECT_EQ(testing::check_everywhere<Family>({{.text = "x: f32[4,1,9]; y: f32[5,1]; r = add(x, y); return r"},
                                    {.text = "x: f32[7,5] strides [1,7]; y: f32[7,5]; r = mul(x, y); return r"},
                                    {.text = "x: f32[70,50] strides [1,70]; y: f32[50]; r = mul(x, y); return r"},
                                    {.text = "x: f32[6,17] strides [40,2] offset 3; r = exp(x); return r"},
                                    {.text = "x: f32[6,17] strides [0,1]; y: f32[6,1]; r = sub(x, y); return r"},
                                    {.text = "x: f32[100]; y: f32[100]; r = add(x, y); return r", .unaligned = true},
                                    {.text = "x: f16[33,3]; y: f16[3]; r = add(x, y); return r", .unaligned = true},
                                    {.text = "x: bf16[300]; r = silu(x, alpha=1.0); return r", .unaligned = true}}),
            "");
}

TEST(Pointwise, several_outputs_of_different_shapes_run_in_one_launch) {
  EXPECT_EQ(testing::check_everywhere<Family>({{.text = "x: f32[6,9]; y: f32[9]; a = exp(y); b = add(x, a); return a, b"},
                                    {.text = "x: f32[6,9]; a = exp(x); b = neg(a); return b, a, x"}}),
            "");
}

TEST(Pointwise, movement_around_arithmetic_folds_into_offsets) {
  EXPECT_EQ(testing::check_everywhere<Family>({{.text = "x: f32[2,6,4,8]; t = transpose(x, perm=[0,2,1,3]); r = reshape(t): [2,4,48]; y = exp(r); return y"},
                                    {.text = "x: f32[3,384]; r = reshape(x): [3,6,64]; t = transpose(r, perm=[1,0,2]); y = neg(t); return y"},
                                    {.text = "x: f32[5,6]; y: f32[5,7]; c = concat(x, y, axis=1); e = exp(c); return e"},
                                    {.text = "x: f32[64,40]; y: f32[40,64]; t = transpose(x, perm=[1,0]); r = add(t, y); return r"}}),
            "");
}

TEST(Pointwise, candidates_give_the_same_bits) {
  EXPECT_EQ(testing::check_candidates<Family>("x: f32[61,67]; y: f32[67]; a = add(x, y); b = gelu(a, tanh=1); return b"), "");
  EXPECT_EQ(testing::check_candidates<Family>("x: f16[61,67]; y: f16[67,61]; t = transpose(y, perm=[1,0]); a = add(x, t); return a"), "");
}

TEST(Pointwise, refuses_what_is_neither_pointwise_nor_movement) {
  EXPECT_NE(testing::refusal(*erase<Family>(), "x: f32[4,4]; s = softmax(x, axis=1); y = exp(s); return y").find("softmax is neither"), std::string::npos);
}

}  // namespace
}  // namespace rtx::kernels

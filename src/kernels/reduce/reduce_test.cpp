#include "kernels/reduce/reduce.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "kernels/family_testing.h"

namespace rtx::kernels {
namespace {

using reduce::Family;
using testing::TestCase;

TEST(Reduce, rows_and_columns_of_every_type) {
  std::vector<TestCase> cases;
  for (const char* type : {"f64", "f32", "f16", "bf16", "i8", "i32", "i64", "u8", "u64"})
    for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"})
      for (const char* axis : {"0", "1"})
        cases.push_back({.text = "x: " + std::string(type) + "[13,37]; y = " + op + "(x, axes=[" + axis + "], keepdims=0); return y", .low = 0.25, .high = 4});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Reduce, ugly_sizes_and_axes) {
  std::vector<TestCase> cases;
  for (const char* shape : {"[1,1,1]", "[2,1,7]", "[3,8,8]", "[3,9,15]", "[5,16,17]", "[0,4,4]", "[2,31,33]"})
    for (const char* axes : {"[0]", "[1]", "[2]", "[0,2]", "[1,2]", "[0,1,2]"}) {
      if (std::string(shape) == "[0,4,4]" && std::string(axes).find('0') != std::string::npos) continue;
      cases.push_back({.text = "x: f32" + std::string(shape) + "; y = reduce_sum(x, axes=" + axes + ", keepdims=1); return y", .low = 0.5, .high = 1});
    }
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Reduce, long_sums_stay_within_tolerance) {
  EXPECT_EQ(testing::check_everywhere<Family>({{.text = "x: f32[3,100003]; y = reduce_sum(x, axes=[1], keepdims=0); return y", .low = 1, .high = 2},
                                    {.text = "x: f32[3000,70]; y = reduce_mean(x, axes=[0], keepdims=0); return y", .low = 1, .high = 2},
                                    {.text = "x: f16[2,9000]; y = reduce_sum(x, axes=[1], keepdims=0); return y", .low = 1, .high = 2},
                                    {.text = "x: f32[600,601]; y = reduce_sum(x, axes=[0,1], keepdims=0); return y", .low = 1, .high = 2},
                                    {.text = "x: f32[700,301]; y = reduce_max(x, axes=[0,1], keepdims=0); return y"},
                                    {.text = "x: i32[700,301]; y = reduce_mean(x, axes=[0,1], keepdims=0); return y"},
                                    {.text = "x: f32[4000,40]; y = reduce_sum(x, axes=[0], keepdims=0); return y", .low = 1, .high = 2}}),
            "");
}

TEST(Reduce, prologues_and_epilogues_are_fused) {
  EXPECT_EQ(testing::check_everywhere<Family>(
                {{.text = "x: f32[9,70]; y: f32[70]; p = mul(x, y); r = reduce_sum(p, axes=[1], keepdims=0); e = sqrt(r); return e", .low = 0.5, .high = 2},
                 {.text = "x: f32[9,70]; z: f32[70]; p = mul(x, x); r = reduce_mean(p, axes=[0], keepdims=0); e = add(r, z); return e, r"},
                 {.text = "x: f32[4,6,8,5]; t = transpose(x, perm=[0,2,1,3]); r = reduce_sum(t, axes=[1,3], keepdims=0); q = reshape(r): [24]; return q", .low = 0.5, .high = 2},
                 {.text = "x: f16[8,3,40]; r = reduce_max(x, axes=[2], keepdims=1); s = reshape(r): [8,3]; t = transpose(s, perm=[1,0]); return t"},
                 {.text = "x: f32[5,7] strides [1,5]; r = reduce_sum(x, axes=[1], keepdims=0); return r", .low = 0.5, .high = 2, .unaligned = true},
                 {.text = "x: f32[100,7] strides [30,3] offset 2; r = reduce_sum(x, axes=[0], keepdims=0); return r", .low = 0.5, .high = 2},
                 {.text = "x: f32[3,5]; y: f32[3,6]; c = concat(x, y, axis=1); r = reduce_sum(c, axes=[1], keepdims=0); return r", .low = 0.5, .high = 2},
                 {.text = "x: f32[20,4]; i: i64[6]; c = gather(x, i, axis=0); r = reduce_sum(c, axes=[0], keepdims=0); return r", .low = 0.5, .high = 2}}),
            "");
}

TEST(Reduce, nan_passes_maximum_and_minimum) {
  std::vector<TestCase> cases;
  for (const char* op : {"reduce_max", "reduce_min", "reduce_sum"})
    for (const char* axis : {"0", "1"})
      cases.push_back({.text = "x: f32[41,39]; y = " + std::string(op) + "(x, axes=[" + axis + "], keepdims=0); return y", .special = true});
  EXPECT_EQ(testing::check_everywhere<Family>(cases), "");
}

TEST(Reduce, candidates_of_one_class_give_the_same_bits) {
  EXPECT_EQ(testing::check_candidates<Family>("x: f32[65,300]; y = reduce_mean(x, axes=[1], keepdims=0); return y", 6), "");
  EXPECT_EQ(testing::check_candidates<Family>("x: f32[65,300]; y = reduce_mean(x, axes=[0], keepdims=0); return y", 6), "");
}

TEST(Reduce, refuses_empty_axes_booleans_and_results_on_the_way) {
  const auto family = erase<Family>();
  EXPECT_NE(testing::refusal(*family, "x: f32[3,0]; y = reduce_sum(x, axes=[1], keepdims=0); return y").find("neutral element"), std::string::npos);
  EXPECT_NE(testing::refusal(*family, "x: bool[3,4]; y = reduce_max(x, axes=[1], keepdims=0); return y").find("loop nest"), std::string::npos);
  EXPECT_NE(testing::refusal(*family, "x: f32[3,4]; e = exp(x); y = reduce_max(e, axes=[1], keepdims=0); return y, e").find("on the way"), std::string::npos);
  EXPECT_NE(testing::refusal(*family, "x: f32[3,4]; m = reduce_mean(x, axes=[1], keepdims=1); y = sub(x, m); return y"), "");
}

}  // namespace
}  // namespace rtx::kernels

#include "kernels/softmax/softmax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/family_testing.h"

namespace rtx::kernels {
namespace {

using softmax::Softmax;
using testing::TestCase;

std::vector<TestCase> with_sizes(const std::string& text, const std::vector<int64_t>& sizes) {
  std::vector<TestCase> out;
  for (const int64_t size : sizes) {
    TestCase test;
    for (const char c : text) test.text += c == '@' ? std::to_string(size) : std::string(1, c);
    out.push_back(test);
  }
  return out;
}

TEST(Softmax, agrees_along_the_innermost_axis_at_ugly_lengths) {
  const std::vector<int64_t> sizes = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1009};
  EXPECT_EQ(testing::check_everywhere<Softmax>(with_sizes("x: f32[5,@]; y = softmax(x, axis=1); return y", sizes)), "");
  EXPECT_EQ(testing::check_everywhere<Softmax>(with_sizes("x: f32[5,@]; y = log_softmax(x, axis=1); return y", sizes)), "");
}

TEST(Softmax, agrees_along_outer_axes) {
  std::vector<TestCase> cases = with_sizes("x: f32[3,5,@]; y = softmax(x, axis=1); return y", {1, 3, 7, 8, 9, 16, 17, 33, 64, 65, 130});
  for (const auto& more : with_sizes("x: f32[@,2,9]; y = log_softmax(x, axis=0); return y", {1, 2, 7, 40})) cases.push_back(more);
  EXPECT_EQ(testing::check_everywhere<Softmax>(cases), "");
}

TEST(Softmax, half_types_scales_and_masks_on_both_sides) {
  EXPECT_EQ(testing::check_everywhere<Softmax>({{.text = "x: f16[4,40]; y = softmax(x, axis=1); return y"},
                                     {.text = "x: bf16[4,40]; y = softmax(x, axis=1); return y"},
                                     {.text = "x: f32[2,3,5,21]; m: f32[2,1,1,21]; c: const f32[] {0.125}; s = mul(x, c); h = add(s, m); y = softmax(h, axis=3); return y"},
                                     {.text = "x: f32[2,3,5,21]; m: bool[5,21]; n: const f32[] {-1e4}; h = where(m, x, n); y = softmax(h, axis=3); z = cast(y): bf16; return z"},
                                     {.text = "x: f32[6,8,5]; y = softmax(x, axis=1); z = transpose(y, perm=[2,0,1]); return z"},
                                     {.text = "x: f32[5,6,20]; y = softmax(x, axis=1); z = mul(y, x); return z"},
                                     {.text = "x: f32[5,17]; y: f32[17]; h = add(x, y); s = softmax(h, axis=1); return s, h"}}),
            "");
}

// A written-out softmax of -inf only is NaN, and so is a row with NaN or +inf (pains P38 states the rule).
TEST(Softmax, nan_and_infinity_stand_where_the_reference_has_them) {
  EXPECT_EQ(testing::check_everywhere<Softmax>({{.text = "x: f32[64,5]; y = softmax(x, axis=1); return y", .special = true},
                                     {.text = "x: f32[5,70]; y = softmax(x, axis=0); return y", .special = true},
                                     {.text = "x: f32[4,18]; y = softmax(x, axis=1); return y", .fill = [](size_t, int64_t i) { return i / 18 == 1 || i % 3 == 0 ? -INFINITY : 1.0; }}}),
            "");
}

TEST(Softmax, far_apart_numbers_neither_overflow_nor_vanish) {
  EXPECT_EQ(testing::check_everywhere<Softmax>({{.text = "x: f32[9,33]; y = softmax(x, axis=1); return y", .low = -3e4, .high = 3e4},
                                     {.text = "x: f32[9,33]; y = log_softmax(x, axis=1); return y", .low = -3e4, .high = 3e4},
                                     {.text = "x: f32[1,3]; y = softmax(x, axis=1); return y", .fill = [](size_t, int64_t i) { return i == 0 ? 0.0 : -95.0 - static_cast<double>(i); }}}),
            "");
}

TEST(Softmax, empty_tensors_launch_nothing) {
  EXPECT_EQ(testing::check_everywhere<Softmax>({{.text = "x: f32[4,0]; y = softmax(x, axis=1); return y"}, {.text = "x: f32[0,4]; y = softmax(x, axis=1); return y"}}), "");
}

TEST(Softmax, all_candidates_give_the_same_bits) {
  EXPECT_EQ(testing::check_candidates<Softmax>("x: f32[130,37]; y = softmax(x, axis=1); return y"), "");
  EXPECT_EQ(testing::check_candidates<Softmax>("x: f32[3,37,70]; y = softmax(x, axis=1); return y"), "");
}

TEST(Softmax, refusals_say_why) {
  const auto family = erase<Softmax>();
  EXPECT_NE(testing::refusal(*family, "x: f64[3,8]; y = softmax(x, axis=1); return y").find("does not take f64"), std::string::npos);
  EXPECT_NE(testing::refusal(*family, "x: f32[1,900000]; y = softmax(x, axis=1); return y").find("too long"), std::string::npos);
  EXPECT_NE(testing::refusal(*family, "x: f32[20000,64]; y = softmax(x, axis=0); return y").find("too long"), std::string::npos);
}

}  // namespace
}  // namespace rtx::kernels

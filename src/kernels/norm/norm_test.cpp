#include "kernels/norm/norm.h"

#include <gtest/gtest.h>

#include "kernels/family_testing.h"

namespace rtx::kernels {
namespace {

using norm::Norm;
using testing::TestCase;

// Every @ of `text` becomes one of the sizes.
std::vector<TestCase> with_sizes(const std::string& text, const std::vector<int64_t>& sizes) {
  std::vector<TestCase> out;
  for (const int64_t size : sizes) {
    TestCase test;
    for (const char c : text) test.text += c == '@' ? std::to_string(size) : std::string(1, c);
    out.push_back(test);
  }
  return out;
}
const std::vector<int64_t> kUglySizes = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1009, 1024};

TEST(Norm, layer_norm_agrees_at_ugly_row_lengths) {
  EXPECT_EQ(testing::check_everywhere<Norm>(with_sizes("x: f32[5,@]; g: f32[@]; b: f32[@]; y = layer_norm(x, g, b, axis=1, epsilon=1e-5); return y", kUglySizes)), "");
}

TEST(Norm, rms_norm_agrees_at_ugly_row_lengths) {
  EXPECT_EQ(testing::check_everywhere<Norm>(with_sizes("x: f32[5,@]; g: f32[@]; y = rms_norm(x, g, axis=1, epsilon=1e-6); return y", kUglySizes)), "");
}

TEST(Norm, half_types_are_computed_in_f32) {
  std::vector<TestCase> cases;
  for (const std::string t : {"f16", "bf16"}) {
    cases.push_back({.text = "x: " + t + "[3,100]; g: " + t + "[100]; b: " + t + "[100]; y = layer_norm(x, g, b, axis=1, epsilon=1e-5); return y"});
    cases.push_back({.text = "x: " + t + "[3,4,37]; g: " + t + "[37]; y = rms_norm(x, g, axis=2, epsilon=1e-5); z = silu(y, alpha=1.0); return z"});
  }
  EXPECT_EQ(testing::check_everywhere<Norm>(cases), "");
}

TEST(Norm, scale_and_bias_are_optional_and_broadcast_to_several_axes) {
  EXPECT_EQ(testing::check_everywhere<Norm>({{.text = "x: f32[4,19]; y = layer_norm(x, axis=1, epsilon=1e-5); return y"},
                                  {.text = "x: f32[4,19]; y = rms_norm(x, axis=1, epsilon=1e-5); return y"},
                                  {.text = "x: f32[2,3,4,5]; g: f32[4,5]; b: f32[5]; y = layer_norm(x, g, b, axis=2, epsilon=1e-5); return y"},
                                  {.text = "x: f32[2,3,5]; g: f32[1]; y = layer_norm(x, g, axis=0, epsilon=1e-5); return y"},
                                  {.text = "x: f32[4,19]; b: f32[19]; y = layer_norm(x, _, b, axis=1, epsilon=1e-5); return y"}}),
            "");
}

TEST(Norm, a_residual_sum_is_stored_on_the_way) {
  EXPECT_EQ(testing::check_everywhere<Norm>({{.text = "x: f32[6,70]; r: f32[6,70]; g: f32[70]; h = add(x, r); y = layer_norm(h, g, axis=1, epsilon=1e-5); return y, h"},
                                  {.text = "x: f16[2,3,70]; r: f16[2,3,70]; h = add(x, r); y = rms_norm(h, axis=2, epsilon=1e-5); return h, y"},
                                  {.text = "x: f32[2,3,14]; r: f32[2,3,14]; h = add(x, r); f = reshape(h): [6,14]; y = layer_norm(f, axis=1, epsilon=1e-5); return y, h"},
                                  {.text = "x: f32[6,8]; h = relu(x); f = cast(h): f16; y = layer_norm(f, axis=1, epsilon=1e-5); return y, h"}}),
            "");
}

TEST(Norm, mean_and_deviation_are_results_too) {
  EXPECT_EQ(testing::check_everywhere<Norm>({{.text = "x: f32[6,70]; (y, m, v) = layer_norm(x, axis=1, epsilon=1e-5); return y, m, v"},
                                  {.text = "x: f32[3,4]; (y, m, v) = layer_norm(x, axis=1, epsilon=1e-5); return y, m"},
                                  {.text = "x: f16[2,3,10]; (y, m, v) = layer_norm(x, axis=1, epsilon=1e-3); z = gelu(y, tanh=1); return z, v"}}),
            "");
}

TEST(Norm, an_epilogue_may_transpose_cast_and_read_the_input_again) {
  EXPECT_EQ(testing::check_everywhere<Norm>({{.text = "x: f32[5,33]; g: f32[33]; b: f32[33]; y = layer_norm(x, g, b, axis=1, epsilon=1e-5); z = gelu(y, tanh=0); return z"},
                                  {.text = "x: f32[5,33]; y = layer_norm(x, axis=1, epsilon=1e-5); z = transpose(y, perm=[1,0]); return z"},
                                  {.text = "x: f32[5,33]; y = layer_norm(x, axis=1, epsilon=1e-5); z = add(x, y); c = cast(z): f16; return c"},
                                  {.text = "x: f32[4,6,8]; y = layer_norm(x, axis=2, epsilon=1e-5); z = reshape(y): [4,48]; return z"}}),
            "");
}

TEST(Norm, a_prologue_may_gather_and_transpose) {
  EXPECT_EQ(testing::check_everywhere<Norm>({{.text = "t: f32[50,24]; p: f32[7,24]; i: i64[3,7]; e = gather(t, i, axis=0); h = add(e, p); y = layer_norm(h, axis=2, epsilon=1e-12); return y"},
                                  {.text = "x: f32[33,5]; t = transpose(x, perm=[1,0]); y = rms_norm(t, axis=1, epsilon=1e-5); return y"},
                                  {.text = "x: f32[5,33] strides [40,1] offset 3; y = layer_norm(x, axis=1, epsilon=1e-5); return y", .unaligned = true}}),
            "");
}

// pains P35: E[x^2] - E[x]^2 would cancel to nothing here.
TEST(Norm, a_large_mean_does_not_cost_the_variance) {
  EXPECT_EQ(testing::check_everywhere<Norm>({{.text = "x: f32[2,1024]; y = layer_norm(x, axis=1, epsilon=1e-5); return y",
                                   .fill = [](size_t, int64_t i) { return 65536.0 + static_cast<double>(i % 2); }},
                                  {.text = "x: f32[1,16]; y = layer_norm(x, axis=1, epsilon=0.0); return y",
                                   .fill = [](size_t, int64_t i) { return 1000.0 + 0.125 * static_cast<double>(i); }}}),
            "");
}

// The first elements, about which a row is summed, are many deviations away from its mean: the sums would cancel.
TEST(Norm, a_row_that_begins_far_from_its_mean_is_as_accurate) {
  EXPECT_EQ(testing::check_everywhere<Norm>({{.text = "x: f32[1,65536]; y = layer_norm(x, axis=1, epsilon=1e-5); return y",
                                   .fill = [](size_t, int64_t i) { return i < 64 ? 1000.0 : 0.7 * static_cast<double>(i % 2); }},
                                  {.text = "x: f32[2,40]; y = layer_norm(x, axis=1, epsilon=1e-5); return y",
                                   .fill = [](size_t, int64_t i) { return i % 40 == 0 ? 1e6 : 0.7 * static_cast<double>(i % 2); }}}),
            "");
}

// pains P37, and the exactness the design asks for. The bodies compare by themselves, so the answers are exact: round(4096 y) is
// 4096 only where y is 1 in f16.
TEST(Norm, constant_rows_give_exactly_one_and_exactly_zero) {
  EXPECT_EQ(testing::check_everywhere<Norm>({{.text = "x: f16[3,4096]; w: f16[4096]; n: const f16[] {4096}; half: const f16[] {0.5}; y = rms_norm(x, w, axis=1, epsilon=1e-6); "
                                           "s = mul(y, n); r = add(s, half); i = cast(r): i32; return i",
                                   .fill = [](size_t input, int64_t) { return input == 0 ? 300.0 : 1.0; }},
                                  {.text = "x: f16[3,4096]; zero: const f16[] {0}; y = layer_norm(x, axis=1, epsilon=1e-6); e = equal(y, zero); return e",
                                   .fill = [](size_t, int64_t) { return 300.0; }},
                                  {.text = "x: f32[3,1000]; zero: const f32[] {0}; y = layer_norm(x, axis=1, epsilon=1e-6); e = equal(y, zero); return e",
                                   .fill = [](size_t, int64_t) { return 0.1; }}}),
            "");
}

TEST(Norm, squares_beyond_the_range_of_f32_are_right) {
  EXPECT_EQ(testing::check_everywhere<Norm>({{.text = "x: f32[2,50]; y = rms_norm(x, axis=1, epsilon=1e-5); return y", .low = -1e30, .high = 1e30},
                                  {.text = "x: f32[2,50]; y = layer_norm(x, axis=1, epsilon=0.0); return y", .low = -1e-25, .high = 1e-25},
                                  {.text = "x: f32[2,100]; y = layer_norm(x, axis=1, epsilon=0.0); return y", .low = -1e30, .high = 1e30}}),
            "");
}

TEST(Norm, nan_and_infinity_spoil_their_row_only) {
  EXPECT_EQ(testing::check_everywhere<Norm>(std::vector<TestCase>{{.text = "x: f32[40,3]; y = layer_norm(x, axis=1, epsilon=1e-5); return y", .special = true}}), "");
}

TEST(Norm, empty_tensors_launch_nothing) {
  EXPECT_EQ(testing::check_everywhere<Norm>({{.text = "x: f32[0,8]; y = layer_norm(x, axis=1, epsilon=1e-5); return y"},
                                  {.text = "x: f32[3,0]; y = rms_norm(x, axis=1, epsilon=1e-5); return y"}}),
            "");
}

TEST(Norm, all_candidates_give_the_same_bits) {
  EXPECT_EQ(testing::check_candidates<Norm>("x: f32[130,100]; r: f32[130,100]; g: f32[100]; h = add(x, r); y = layer_norm(h, g, axis=1, epsilon=1e-5); z = gelu(y, tanh=0); return z, h"), "");
}

TEST(Norm, refusals_say_why) {
  const auto family = erase<Norm>();
  const auto because = [&](const char* text, const char* words) { EXPECT_NE(testing::refusal(*family, text).find(words), std::string::npos) << testing::refusal(*family, text); };
  because("x: f64[3,8]; y = layer_norm(x, axis=1, epsilon=1e-5); return y", "does not take f64");
  because("x: f32[1,1000000]; y = layer_norm(x, axis=1, epsilon=1e-5); return y", "too long");
  because("x: f32[3,8]; y = relu(x); return y", "no anchor");
  because("x: f32[3,8]; y = layer_norm(x, axis=1, epsilon=1e-5); z = rms_norm(y, axis=1, epsilon=1e-5); return z", "two anchors");
  because("x: f32[3,8]; a: f32[4,8]; h = slice(a, starts=[0,0], steps=[1,1]): [3,8]; s = add(x, h); y = layer_norm(s, axis=1, epsilon=1e-5); u = relu(a); return y, u", "stored on the way");
  because("x: f32[3,8]; y = layer_norm(x, axis=1, epsilon=1e-5); z = slice(y, starts=[0,0], steps=[1,1]): [3,4]; return z", "number of elements");
}

}  // namespace
}  // namespace rtx::kernels

// Reductions and row operators.
#include "reference/test_help.h"

namespace rtx::reference {
namespace {

TEST(Reduce, sums_run_along_any_axes) {
  const Numbers x = counting(12);
  expect_near(first("x: f32[2,3,2]; y = reduce_sum(x, axes=[0,2]); return y", {x}), {0 + 1 + 6 + 7, 2 + 3 + 8 + 9, 4 + 5 + 10 + 11});
  expect_near(first("x: f32[2,3,2]; y = reduce_mean(x, axes=[1], keepdims=1); return y", {x}), {2, 3, 8, 9});
  expect_near(first("x: f32[2,3,2]; y = reduce_max(x, axes=[0,1,2]); return y", {x}), {11});
  expect_near(first("x: f32[2,3,2]; y = reduce_min(x, axes=[2]); return y", {x}), {0, 2, 4, 6, 8, 10});
  expect_near(first("x: f32[2]; y = reduce_sum(x, axes=[]); return y", {{3, 4}}), {3, 4});
  expect_near(first("x: f32[]; y = reduce_max(x, axes=[]); return y", {{3}}), {3});
}

TEST(Reduce, of_nothing_gives_the_neutral_element) {
  expect_near(first("x: f32[2,0]; y = reduce_sum(x, axes=[1]); return y", {{}}), {0, 0});
  expect_near(first("x: f32[2,0]; y = reduce_mean(x, axes=[1]); return y", {{}}), {kNan, kNan});
  expect_near(first("x: f32[2,0]; y = reduce_max(x, axes=[1]); return y", {{}}), {-kInf, -kInf});
  expect_near(first("x: i8[1,0]; y = reduce_max(x, axes=[1]); return y", {{}}), {-128});
  expect_near(first("x: u32[1,0]; y = reduce_min(x, axes=[1]); return y", {{}}), {4294967295});
  expect_near(first("x: i32[1,0]; y = reduce_mean(x, axes=[1]); return y", {{}}), {0});
  expect_near(first("x: f32[0,2]; y = reduce_sum(x, axes=[1]); return y", {{}}), {});
}

TEST(Reduce, integers_wrap_and_their_mean_truncates) {
  expect_near(first("x: i8[3]; y = reduce_sum(x, axes=[0]); return y", {{100, 100, 1}}), {-55});
  expect_near(first("x: i8[3]; y = reduce_mean(x, axes=[0]); return y", {{-100, -100, 0}}), {-66});
  expect_near(first("x: bool[2,2]; y = reduce_max(x, axes=[1]); return y", {{0, 1, 0, 0}}), {1, 0});
  expect_near(first("x: u64[2]; y = reduce_max(x, axes=[0]); return y", {{1, 18446744073709549568.0}}), {18446744073709549568.0});
}

TEST(Reduce, cancelling_sums_are_exact) {
  Numbers x(8192, 1);
  for (size_t i = 4096; i < x.size(); ++i) x[i] = -1;
  x[0] = 2;
  expect_near(first("x: bf16[8192]; y = reduce_sum(x, axes=[0]); return y", {x}), {1}, 0);
}

TEST(Cumsum, runs_along_any_axis_in_both_directions) {
  const Numbers x{1, 2, 3, 4, 5, 6};
  expect_near(first("x: f32[2,3]; y = cumsum(x, axis=1); return y", {x}), {1, 3, 6, 4, 9, 15});
  expect_near(first("x: f32[2,3]; y = cumsum(x, axis=0); return y", {x}), {1, 2, 3, 5, 7, 9});
  expect_near(first("x: f32[2,3]; y = cumsum(x, axis=1, exclusive=1); return y", {x}), {0, 1, 3, 0, 4, 9});
  expect_near(first("x: f32[2,3]; y = cumsum(x, axis=1, reverse=1); return y", {x}), {6, 5, 3, 15, 11, 6});
  expect_near(first("x: f32[2,3]; y = cumsum(x, axis=1, exclusive=1, reverse=1); return y", {x}), {5, 3, 0, 11, 6, 0});
}

TEST(Cumsum, infinities_and_empty_rows) {
  expect_near(first("x: f32[3]; y = cumsum(x, axis=0, exclusive=1); return y", {{1, kInf, 2}}), {0, 1, kInf});
  expect_near(first("x: f32[3]; y = cumsum(x, axis=0); return y", {{kInf, -kInf, 2}}), {kInf, kNan, kNan});
  expect_near(first("x: f32[2,0]; y = cumsum(x, axis=1); return y", {{}}), {});
  expect_near(first("x: f32[0,2]; y = cumsum(x, axis=1); return y", {{}}), {});
}

TEST(Cumsum, integers_wrap_at_every_step) {
  expect_near(first("x: i8[3]; y = cumsum(x, axis=0); return y", {{100, 100, 1}}), {100, -56, -55});
  expect_near(first("x: u8[2]; y = cumsum(x, axis=0); return y", {{200, 100}}), {200, 44});
}

TEST(Softmax, rows_sum_to_one_along_any_axis) {
  const Numbers x{0, std::log(3.0), std::log(2.0), std::log(6.0)};
  expect_near(first("x: f64[2,2]; y = softmax(x, axis=1); return y", {x}), {0.25, 0.75, 0.25, 0.75});
  expect_near(first("x: f64[2,2]; y = softmax(x, axis=0); return y", {x}), {1.0 / 3, 1.0 / 3, 2.0 / 3, 2.0 / 3});
  expect_near(first("x: f64[1,2]; y = log_softmax(x, axis=1); return y", {{1000, 1000}}), {-std::log(2.0), -std::log(2.0)});
}

TEST(Softmax, masked_rows_empty_rows_and_nan) {  // P38, P29
  expect_near(first("x: f32[3,2]; y = softmax(x, axis=1); return y", {{-kInf, -kInf, 0, -kInf, kNan, 0}}), {kNan, kNan, 1, 0, kNan, kNan});
  expect_near(first("x: f32[4,0]; y = softmax(x, axis=1); return y", {{}}), {});
  expect_near(first("x: f32[0,4]; y = log_softmax(x, axis=1); return y", {{}}), {});
}

TEST(LayerNorm, survives_a_large_mean) {  // P35
  Numbers x;
  for (int i = 0; i < 1024; ++i) x.push_back(65536 + i % 2);
  const Numbers y = first("x: f32[1,1024]; y = layer_norm(x, axis=1, epsilon=1e-05); return y", {x});
  EXPECT_NEAR(y[0], -0.99998000, 5e-9);
  EXPECT_NEAR(y[1], 0.99998000, 5e-9);
  // 16 values a step of 1e-3 apart have variance (16^2-1)/12 * 1e-6 = 2.125e-5.
  const Numbers z = first("x: f64[1,16]; y = layer_norm(x, axis=1, epsilon=1e-05); return y", {counting(16, -7.5e-3, 1e-3)});
  EXPECT_NEAR(z[0], -1.34164079, 5e-9);
}

TEST(LayerNorm, scale_bias_and_statistics_follow_the_axis) {
  auto out = run_text(R"(x: f64[2,1,2]; g: f64[1,2]; b: f64[2]; (y, m, v) = layer_norm(x, g, b, axis=1, epsilon=0.0); return y, m, v)",
                      {{1, 3, 10, 30}, {2, 4}, {100, 200}});
  ASSERT_TRUE(out.ok()) << out.error().text();
  expect_near(numbers_of((*out)[0]), {98, 204, 98, 204});
  expect_near(numbers_of((*out)[1]), {2, 20});
  expect_near(numbers_of((*out)[2]), {1, 0.1});
  EXPECT_EQ((*out)[1].extents, (std::vector<int64_t>{2, 1, 1}));
  expect_near(first("x: f64[1,2]; b: f64[2]; y = layer_norm(x, _, b, axis=1, epsilon=0.0); return y", {{1, 3}, {5, 5}}), {4, 6});
}

TEST(Norms, large_halves_do_not_overflow_and_constant_rows_vanish) {  // P37
  const Options each{.round_each_op = true};
  expect_near(first("x: f16[3,4096]; w: f16[4096]; y = rms_norm(x, w, axis=1, epsilon=1e-06); return y", {{300}, {1}}, each), Numbers(3 * 4096, 1), 0);
  expect_near(first("x: f16[3,4096]; y = layer_norm(x, axis=1); return y", {{300}}), Numbers(3 * 4096, 0), 0);
  expect_near(first("x: f64[2]; y = rms_norm(x, axis=0, epsilon=0.0); return y", {{3, 4}}), {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)});
}

}  // namespace
}  // namespace rtx::reference

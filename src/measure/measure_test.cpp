#include "measure/measure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace rtx::measure {
namespace {

std::function<Result<double>()> replay(std::vector<double> values) {
  return [values, i = size_t{0}]() mutable -> Result<double> { return values[i++ % values.size()]; };
}

TEST(Measure, drops_samples_that_are_no_times_and_still_gives_a_median) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  auto samples = sample(replay({0.0, -1.0, nan, inf, 0.002}), {.warmup = 0, .minimum_samples = 3, .maximum_samples = 50, .target_seconds = 0});
  ASSERT_TRUE(samples.ok());
  EXPECT_DOUBLE_EQ(samples->median(), 0.002);
  EXPECT_EQ(samples->dropped, 12);
}

TEST(Measure, a_clock_that_never_moves_is_an_error_not_a_loop) {
  auto samples = sample(replay({0.0}), {.warmup = 0, .minimum_samples = 3, .maximum_samples = 20, .target_seconds = 1});
  ASSERT_FALSE(samples.ok());
  EXPECT_EQ(samples.error().kind, ErrorKind::device);
}

TEST(Measure, an_error_of_the_subject_ends_the_measurement) {
  auto samples = sample([]() -> Result<double> { return user_error("kernel failed"); });
  ASSERT_FALSE(samples.ok());
  EXPECT_EQ(samples.error().what, "kernel failed");
}

TEST(Measure, overlapping_intervals_are_not_faster) {
  Samples a, b, c;
  for (int i = 0; i < 20; ++i) {
    a.seconds.push_back(1.0 + 0.01 * i);
    b.seconds.push_back(1.05 + 0.01 * i);
    c.seconds.push_back(2.0 + 0.01 * i);
  }
  EXPECT_FALSE(faster(a, b));
  EXPECT_TRUE(faster(a, c));
  EXPECT_FALSE(faster(c, a));
}

TEST(Measure, interleaving_gives_every_subject_every_round) {
  int first = 0, second = 0;
  auto samples = interleave({[&]() -> Result<double> { ++first; return 1.0; }, [&]() -> Result<double> { ++second; return 2.0; }}, 10, 2);
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ(first, 12);
  EXPECT_EQ(second, 12);
  EXPECT_EQ((*samples)[0].seconds.size(), 10u);
  EXPECT_TRUE(faster((*samples)[0], (*samples)[1]));
}

TEST(Measure, the_interval_holds_the_median) {
  Samples s;
  for (int i = 1; i <= 101; ++i) s.seconds.push_back(i);
  EXPECT_DOUBLE_EQ(s.median(), 51);
  EXPECT_LT(s.interval_low(), 51);
  EXPECT_GT(s.interval_high(), 51);
  EXPECT_GT(s.interval_low(), 35);
  EXPECT_DOUBLE_EQ(s.percentile(100), 101);
}

}  // namespace
}  // namespace rtx::measure

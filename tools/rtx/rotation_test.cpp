#include "rtx/rotation.h"

#include <gtest/gtest.h>

#include "runtime/fake_device_testing.h"

namespace rtx::tools {
namespace {

namespace fake = runtime::fake;

// Two contenders of the fake plan, whose tensors take 256 bytes a set.
struct Ring {
  std::shared_ptr<fake::FakeDevice> device = std::make_shared<fake::FakeDevice>();
  std::unique_ptr<TensorSets> sets;
  std::vector<std::unique_ptr<Contender>> contenders;

  explicit Ring(double seconds, bool host = false) {
    device->host_memory = host;
    device->seconds = seconds;
    device->caps_to_change().l2_bytes = 256;
  }
  Status add(const char* name, float factor = 2) {
    bundle::Plan plan = fake::plan();
    auto bytes = std::make_shared<float>(factor);
    plan.constants[0].bytes = reinterpret_cast<const std::byte*>(bytes.get());
    plan.constants[0].owner = bytes;
    ir::HostTensor x(ir::DType::f32, {4, 8});
    for (int64_t i = 0; i < x.count(); ++i) x.set_double(i, static_cast<double>(i + 1));
    if (!sets) {
      RTX_TRY(sets, TensorSets::make(device, plan, {x}));
    }
    RTX_TRY(auto program, runtime::Program::from_plan(std::move(plan), fake::on(device)));
    RTX_TRY(auto made, Contender::open(name, std::move(program), *sets));
    contenders.push_back(std::move(made));
    return success();
  }
};

TEST(Rotation, tensors_come_in_sets_that_span_the_cache_twice_and_a_host_has_one) {
  Ring ring(1e-3), host(1e-3, true);
  ASSERT_TRUE(ring.add("ours").ok());
  ASSERT_TRUE(host.add("ours").ok());
  EXPECT_EQ(ring.sets->count(), 3);
  EXPECT_EQ(host.sets->count(), 1);
  ring.device->caps_to_change().l2_bytes = 50;  // one set is far larger than the cache
  ring.sets.reset();
  ring.contenders.clear();
  ASSERT_TRUE(ring.add("ours").ok());
  EXPECT_EQ(ring.sets->count(), 1);
}

TEST(Rotation, long_work_is_timed_in_bursts_and_a_sample_is_one_launch) {
  Ring ring(1e-3);
  ASSERT_TRUE(ring.add("ours").ok() && ring.add("theirs").ok());
  auto rotated = rotate(ring.contenders, *ring.sets, {.rounds = 5, .warmup = 1});
  ASSERT_TRUE(rotated.ok()) << rotated.error().text();
  EXPECT_FALSE(rotated->recorded);
  EXPECT_EQ(rotated->launches, 32);  // 8 ms of what takes 1 ms for four
  EXPECT_EQ(rotated->sets, 3);
  ASSERT_EQ(rotated->of.size(), 2u);
  for (const auto& one : rotated->of) {
    EXPECT_EQ(one.samples.seconds.size(), 5u);
    EXPECT_DOUBLE_EQ(one.samples.median(), 1e-3 / 32);
  }
}

TEST(Rotation, short_work_is_one_recording_of_at_least_20_launches_in_whole_turns) {
  Ring ring(1e-5);
  ASSERT_TRUE(ring.add("ours").ok() && ring.add("theirs").ok());
  auto rotated = rotate(ring.contenders, *ring.sets, {.rounds = 4, .warmup = 0});
  ASSERT_TRUE(rotated.ok()) << rotated.error().text();
  EXPECT_TRUE(rotated->recorded);
  EXPECT_EQ(rotated->launches, 21);
  EXPECT_DOUBLE_EQ(rotated->of[0].samples.median(), 1e-5 / 21);
}

TEST(Rotation, contenders_that_disagree_are_not_compared) {
  Ring ring(1e-3);
  ASSERT_TRUE(ring.add("ours").ok() && ring.add("theirs", 3).ok());
  const auto rotated = rotate(ring.contenders, *ring.sets, {.rounds = 2, .warmup = 0});
  ASSERT_FALSE(rotated.ok());
  EXPECT_EQ(rotated.error().kind, ErrorKind::check_failed);
  EXPECT_EQ(rotated.error().what, "ours and theirs disagree");
}

TEST(Rotation, sustained_is_each_alone_and_only_of_what_is_not_recorded) {
  for (const double seconds : {1e-3, 1e-5}) {
    Ring ring(seconds);
    ASSERT_TRUE(ring.add("ours").ok());
    const auto rotated =
        rotate(ring.contenders, *ring.sets, {.rounds = 1, .warmup = 0, .sustained_seconds = 0.02});
    ASSERT_TRUE(rotated.ok());
    EXPECT_DOUBLE_EQ(rotated->of[0].sustained_seconds, seconds == 1e-3 ? 1e-3 / 32 : 0);
  }
}

}  // namespace
}  // namespace rtx::tools

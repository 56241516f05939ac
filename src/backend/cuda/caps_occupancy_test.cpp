#include "backend/cuda/caps_occupancy.h"

#include <gtest/gtest.h>

#include "backend/cuda/caps.h"

namespace rtx::backend::cuda {
namespace {

KernelResources kernel(int registers, int64_t static_shared = 0) {
  KernelResources out;
  out.entry = "k";
  out.registers = registers;
  out.static_shared = static_shared;
  return out;
}
Occupancy on(const char* arch, int registers, int threads, int64_t shared = 0) { return *occupancy(kernel(registers), threads, shared, *caps_of_arch(arch)); }

// Expected values are those of cuda_occupancy.h (CUDA 13.0), which agreed on 107,520 combinations of arch, registers, threads and shared memory.
TEST(CudaOccupancy, registers_end_it_in_steps_of_256_a_wave) {
  EXPECT_EQ(on("sm_90a", 32, 256).groups, 8);    // 1024 registers a wave: 64 waves
  EXPECT_EQ(on("sm_90a", 33, 256).groups, 6);    // 1280: 12 waves a part, 48 in all
  EXPECT_EQ(on("sm_90a", 168, 384).groups, 1);   // 5376: 3 waves a part, 12 in all: one group of 12
  EXPECT_EQ(on("sm_90a", 255, 256).groups, 1);
  EXPECT_STREQ(on("sm_90a", 168, 384).limit, "registers");
  EXPECT_EQ(on("sm_90a", 128, 96).groups, 5);    // 16 waves, 3 a group
}

TEST(CudaOccupancy, threads_end_it_at_1536_on_consumer_arches) {
  EXPECT_EQ(on("sm_80", 16, 1024).groups, 2);
  EXPECT_EQ(on("sm_86", 16, 1024).groups, 1);
  EXPECT_DOUBLE_EQ(on("sm_86", 16, 512).share, 1.0);
  EXPECT_STREQ(on("sm_120", 16, 512).limit, "threads");
}

TEST(CudaOccupancy, group_slots_end_it_for_small_groups) {
  EXPECT_EQ(on("sm_80", 16, 32).groups, 32);
  EXPECT_EQ(on("sm_86", 16, 32).groups, 16);
  EXPECT_EQ(on("sm_89", 16, 32).groups, 24);
  EXPECT_EQ(on("sm_120", 16, 32).groups, 24);
  EXPECT_STREQ(on("sm_89", 16, 32).limit, "groups");
}

TEST(CudaOccupancy, shared_memory_counts_the_drivers_share_of_each_group) {
  EXPECT_EQ(on("sm_90a", 32, 128, 232448).groups, 1);      // the largest group there is
  EXPECT_EQ(on("sm_90a", 32, 128, 113 << 10).groups, 2);   // 2 x 114 KiB = 228 KiB
  EXPECT_EQ(on("sm_90a", 32, 128, (113 << 10) + 1).groups, 1);
  EXPECT_EQ(on("sm_80", 32, 128, 163 << 10).groups, 1);
  EXPECT_EQ(on("sm_86", 32, 128, 99 << 10).groups, 1);
  EXPECT_EQ(on("sm_86", 32, 128, 49 << 10).groups, 2);
  EXPECT_EQ(occupancy(kernel(32, 64 << 10), 128, 49 << 10, *caps_of_arch("sm_90a"))->groups, 2);
}

TEST(CudaOccupancy, a_launch_beyond_the_limits_is_refused_with_both_numbers) {
  const Caps caps = *caps_of_arch("sm_86");
  EXPECT_FALSE(occupancy(kernel(16), 1025, 0, caps).ok());
  EXPECT_FALSE(occupancy(kernel(16), 0, 0, caps).ok());
  const auto shared = occupancy(kernel(16), 128, 100 << 10, caps);
  ASSERT_FALSE(shared.ok());
  EXPECT_NE(shared.error().why.find("102400"), std::string::npos);
  EXPECT_NE(shared.error().why.find("101376"), std::string::npos);
  EXPECT_FALSE(occupancy(kernel(255), 1024, 0, caps).ok());  // 32 waves of 8192 registers
  auto bounded = kernel(16);
  bounded.max_threads = 256;
  EXPECT_FALSE(occupancy(bounded, 512, 0, caps).ok());
  EXPECT_TRUE(occupancy(bounded, 256, 0, caps).ok());
}

}  // namespace
}  // namespace rtx::backend::cuda

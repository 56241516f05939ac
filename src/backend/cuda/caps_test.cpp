#include "backend/cuda/caps.h"

#include <gtest/gtest.h>

namespace rtx::backend::cuda {
namespace {

TEST(CudaCaps, an_arch_of_the_list_has_the_shape_of_its_usual_product) {
  struct Case { const char* arch; int64_t shared_kib; int cores; };
  for (const auto& [arch, shared, cores] : {Case{"sm_80", 163, 108}, {"sm_86", 99, 82}, {"sm_89", 99, 128}, {"sm_90a", 227, 132}, {"sm_100", 227, 148}, {"sm_120", 99, 170}}) {
    const auto caps = caps_of_arch(arch);
    ASSERT_TRUE(caps.ok()) << arch;
    EXPECT_EQ(caps->target, "cuda");
    EXPECT_EQ(caps->arch, arch);
    EXPECT_EQ(caps->device, std::string("any ") + arch);
    EXPECT_EQ(caps->scratch_bytes, shared << 10) << arch;
    EXPECT_EQ(caps->cores, cores);
    EXPECT_EQ(caps->lanes_per_wave, 32);
    EXPECT_EQ(caps->vector_bits, 128);
    EXPECT_GT(caps->copy_gbps, 500) << arch;
    EXPECT_TRUE(caps->has("mma") && caps->has("cp_async") && caps->has("ldmatrix") && caps->has("tf32")) << arch;
  }
  EXPECT_EQ(known_arches().size(), 6u);
}

TEST(CudaCaps, wgmma_is_for_sm_90a_alone) {
  for (const auto& arch : known_arches()) EXPECT_EQ(caps_of_arch(arch)->has("wgmma"), arch == "sm_90a") << arch;
  EXPECT_FALSE(caps_of_arch("sm_90")->has("wgmma"));
  EXPECT_FALSE(caps_of_arch("sm_100a")->has("wgmma"));
}

TEST(CudaCaps, fp8_starts_with_sm_89_and_store_matrix_with_sm_90) {
  EXPECT_FALSE(caps_of_arch("sm_86")->has("fp8"));
  EXPECT_TRUE(caps_of_arch("sm_89")->has("fp8"));
  EXPECT_FALSE(caps_of_arch("sm_89")->has("store_matrix"));
  EXPECT_TRUE(caps_of_arch("sm_90a")->has("store_matrix"));
  EXPECT_TRUE(caps_of_arch("sm_120")->has("tma"));
}

TEST(CudaCaps, the_h200_reaches_its_datasheet_in_f32) { EXPECT_NEAR(caps_of_arch("sm_90a")->peak_gflops_f32, 67000, 200); }

TEST(CudaCaps, what_is_no_arch_is_refused_with_the_list) {
  for (const char* arch : {"", "sm_", "sm_70", "sm_75", "sm_130", "sm_90b", "sm_8", "sm_86a", "sm_1000", "sm_-9", "sm_9 0", "compute_90", "x86-64-v3"}) {
    const auto caps = caps_of_arch(arch);
    ASSERT_FALSE(caps.ok()) << arch;
    EXPECT_EQ(caps.error().kind, ErrorKind::user);
    EXPECT_NE(caps.error().why.find("sm_90a"), std::string::npos);
  }
}

TEST(CudaCaps, a_binary_runs_from_its_minor_capability_up_within_its_major) {
  const Caps ada = *caps_of_arch("sm_89"), hopper = *caps_of_arch("sm_90a");
  EXPECT_TRUE(runs_on("sm_80", ada));
  EXPECT_TRUE(runs_on("sm_89", ada));
  EXPECT_FALSE(runs_on("sm_90", ada));
  EXPECT_TRUE(runs_on("sm_90a", hopper));
  EXPECT_TRUE(runs_on("sm_90", hopper));
  EXPECT_FALSE(runs_on("sm_80", hopper));
  EXPECT_FALSE(runs_on("x86-64-v3", hopper));
  Caps spark = hopper;
  spark.arch = "sm_121";
  EXPECT_TRUE(runs_on("sm_120", spark));
  EXPECT_FALSE(runs_on("sm_120a", spark));
}

DeviceFacts h200() {
  DeviceFacts facts;
  facts.name = "NVIDIA H200";
  facts.major = 9;
  facts.multiprocessors = 132;
  facts.memory_bytes = int64_t{139} << 30;
  facts.l2_bytes = int64_t{60} << 20;
  facts.shared_bytes_per_group = 232448;
  facts.clock_khz = 1980000;
  facts.driver = "580.159";
  return facts;
}

TEST(CudaCaps, a_device_is_named_by_product_size_and_partition) {
  auto facts = h200();
  EXPECT_EQ(caps_of_device(facts)->device, "NVIDIA H200, 132 SMs, 139 GiB");
  EXPECT_EQ(caps_of_device(facts)->arch, "sm_90a");
  EXPECT_EQ(caps_of_device(facts)->driver, "580.159");
  EXPECT_TRUE(caps_of_device(facts)->has("wgmma"));
  facts.partition = "MIG 3g.71gb";
  facts.multiprocessors = 60;
  EXPECT_EQ(caps_of_device(facts)->device, "NVIDIA H200, 60 SMs, 139 GiB, MIG 3g.71gb");
  EXPECT_NEAR(caps_of_device(facts)->copy_gbps, 4300.0 * 60 / 132, 1);
}

TEST(CudaCaps, matrix_units_of_a_part_of_a_device_are_a_part_of_its_rate) {
  EXPECT_EQ(caps_of_arch("sm_90a")->peak_gflops_16, 989000);
  auto half = h200();
  half.multiprocessors = 66;
  EXPECT_EQ(caps_of_device(half)->peak_gflops_16, 989000.0 / 2);
}

TEST(CudaCaps, a_device_with_a_memory_clock_says_its_own_bandwidth) {
  auto facts = h200();
  facts.memory_clock_khz = 3201000;
  facts.memory_bus_bits = 6144;
  EXPECT_NEAR(caps_of_device(facts)->copy_gbps, 0.9 * 4916.7, 5);
}

TEST(CudaCaps, a_device_newer_than_the_table_keeps_what_its_elders_can) {
  auto facts = h200();
  facts.major = 13;
  facts.minor = 1;
  const auto caps = caps_of_device(facts);
  ASSERT_TRUE(caps.ok());
  EXPECT_EQ(caps->arch, "sm_131");
  EXPECT_TRUE(caps->has("mma"));
  EXPECT_FALSE(caps->has("wgmma"));
  EXPECT_EQ(caps->scratch_bytes, 232448);
}

TEST(CudaCaps, a_device_before_ampere_is_refused_with_its_capability) {
  auto facts = h200();
  facts.name = "Tesla T4";
  facts.major = 7;
  facts.minor = 5;
  const auto caps = caps_of_device(facts);
  ASSERT_FALSE(caps.ok());
  EXPECT_EQ(caps.error().exit_code(), 4);
  EXPECT_NE(caps.error().why.find("7.5"), std::string::npos);
}

}  // namespace
}  // namespace rtx::backend::cuda

#include "rtx/layers.h"

#include <gtest/gtest.h>

namespace rtx::tools {
namespace {

bundle::Plan plan_of(const std::vector<std::pair<std::string, std::string>>& kernels,
                     const std::vector<std::pair<int, std::string>>& steps) {
  bundle::Plan plan;
  for (const auto& [family, region] : kernels) {
    bundle::KernelRecord record;
    record.name = family + "_kernel";
    record.family = family;
    record.region = region;
    plan.kernels.push_back(record);
  }
  for (const auto& [kernel, region] : steps) {
    bundle::Step step;
    step.kernel = kernel;
    step.region = region;
    plan.steps.push_back(step);
  }
  return plan;
}

backend::Caps caps() {
  backend::Caps out;
  out.peak_gflops_f32 = 1000;
  out.peak_gflops_16 = 16000;
  out.copy_gbps = 100;
  return out;
}

const char* product(const char* dtype) {
  return dtype[0] == 'f' ? "a: f32[512,512]; b: f32[512,512]; y = matmul(a, b); return y"
                         : "a: bf16[512,512]; b: bf16[512,512]; y = matmul(a, b); return y";
}

TEST(Layers, a_region_is_measured_against_the_rate_of_its_type) {
  const auto plan = plan_of({{"gemm", product("f32")},
                             {"gemm", product("bf16")},
                             {"pointwise", "x: f32[1000,1000]; y = neg(x); return y"}},
                            {{0, "p"}, {1, "q"}, {2, "r"}});
  const auto rows = region_times(plan, {{"p", "", 1.0}, {"q", "", 1.0}, {"r", "", 0.16}}, caps());
  ASSERT_EQ(rows.size(), 3u);
  const double flops = 2.0 * 512 * 512 * 512;
  EXPECT_NEAR(rows[0].share(), flops / 1e12 * 1e3, 1e-9);  // 0.27 ms of 1
  EXPECT_FALSE(rows[0].by_bytes);
  EXPECT_NEAR(rows[1].share(), flops / 16e12 * 1e3, 1e-9);
  EXPECT_TRUE(rows[2].by_bytes);
  EXPECT_NEAR(rows[2].share(), 8e6 / 100e9 * 1e3 / 0.16, 1e-9);
}

TEST(Layers, launches_of_one_region_are_one_line) {
  const auto plan = plan_of({{"gemm", product("f32")}}, {{0, "p"}, {0, "p"}, {0, "q"}});
  const auto rows = region_times(plan, {{"p", "", 0.5}, {"p", "", 0.25}, {"q", "", 1.0}}, caps());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].ms, 0.75);
  EXPECT_EQ(rows[1].region, "q");
}

TEST(Layers, what_the_plan_does_not_tell_has_no_rate) {
  const auto plan = plan_of({{"gemm", "not a region"}, {"nobody", product("f32")}}, {{0, "p"}, {1, "q"}});
  const auto table = layer_table(region_times(plan, {{"p", "", 1.0}, {"q", "", 3.0}}, caps()));
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[0][4], "-");
  EXPECT_EQ(table[1][5], "-");
  EXPECT_EQ(table[1][3], "75 %");
  EXPECT_EQ(table[2][2], "4");
}

}  // namespace
}  // namespace rtx::tools

#include "rtx/footprint.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/all_compile.h"

namespace rtx::tools {
namespace {

Result<backend::Binary> compile_for_sm_90a(const std::string& text) {
  for (const auto& side : backend::all_compilers())
    if (side.target == "cuda") {
      backend::CompileSettings settings;
      if (const char* library = std::getenv("RTX_NVRTC")) settings.nvrtc = library;
      return side.compiler(settings)->compile({"kernel", text, "sm_90a", {}, 60});
    }
  return error_of(ErrorKind::device, "this build has no cuda");
}

TEST(Footprint, a_cuda_binary_says_what_each_way_to_launch_it_takes) {
  const auto binary = compile_for_sm_90a("extern \"C\" __global__ void __launch_bounds__(256) twice(float* x) { __shared__ float s[256]; s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); "
                                         "x[threadIdx.x] = s[255 - threadIdx.x]; }");
  if (!binary.ok()) GTEST_SKIP() << binary.error().text();
  const auto all = footprints("cuda", "sm_90a", binary->bytes, {{"twice", 256, 0}, {"twice", 256, 100 << 10}, {"twice", 256, 0}, {"nothing", 32, 0}, {"twice", 512, 0}});
  ASSERT_EQ(all.size(), 2u);  // each way once; what is not there, or cannot be launched, is left out
  EXPECT_GT(all[0].resources.registers, 0);
  EXPECT_GE(all[0].resources.static_shared, 1024);
  EXPECT_EQ(all[0].groups, 8);
  EXPECT_EQ(all[0].share, 1.0);
  EXPECT_EQ(all[1].groups, 2);
  EXPECT_EQ(all[1].limit, "shared memory");
  const std::string words = text(all[1]);
  for (const char* part : {"twice: ", " registers", "256 threads a group", "2 groups a core, 25 % of its waves, limited by shared memory"}) EXPECT_NE(words.find(part), std::string::npos) << words;
}

TEST(Footprint, a_target_that_does_not_tell_gives_none) {
  EXPECT_TRUE(footprints("cpu", "x86-64-v3", {}, {{"kernel", 1, 0}}).empty());
  EXPECT_TRUE(footprints("nowhere", "", {}, {{"kernel", 1, 0}}).empty());
  EXPECT_TRUE(footprints("cuda", "sm_90a", {}, {{"kernel", 1, 0}}).empty());
}

}  // namespace
}  // namespace rtx::tools

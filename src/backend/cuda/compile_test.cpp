// The real NVRTC compiles here; where there is none each of these tests says so and is skipped.
#include "backend/cuda/compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "backend/cuda/caps.h"
#include "backend/cuda/compile_testing.h"
#include "backend/cuda/cubin.h"
#include "base/files.h"

namespace rtx::backend::cuda {
namespace {

using testing::compile;
using testing::options_here;

const char* const kReverse =
    "extern \"C\" __global__ void __launch_bounds__(128, 2) reverse(float* p) {\n"
    "  __shared__ float s[300];\n  s[threadIdx.x] = p[threadIdx.x];\n  __syncthreads();\n  p[threadIdx.x] = s[127 - threadIdx.x];\n}\n";
// 64 registers a thread at most, and more values alive.
const char* const kSpills =
    "extern \"C\" __global__ void __launch_bounds__(1024, 1) crowded(float* p, int n) {\n  float a[120];\n"
    "#pragma unroll\n  for (int i = 0; i < 120; i++) a[i] = p[threadIdx.x + i * 1024];\n"
    "  for (int j = 0; j < n; j++) {\n#pragma unroll\n    for (int i = 0; i < 120; i++) a[i] = a[i] * a[(i + 7) % 120] + a[(i * 13) % 120];\n  }\n"
    "#pragma unroll\n  for (int i = 0; i < 120; i++) p[threadIdx.x + i * 1024] = a[i];\n}\n";

TEST(CudaCompiler, a_kernel_becomes_a_cubin_of_its_arch_with_its_resources) {
  RTX_NEEDS_NVRTC();
  const auto compiler = make_compiler(options_here());
  for (const auto& arch : known_arches()) {
    const auto binary = compile(*compiler, kReverse, arch);
    ASSERT_TRUE(binary.ok()) << binary.error().text();
    ASSERT_EQ(binary->resources.size(), 1u);
    const auto& entry = binary->resources[0];
    EXPECT_EQ(entry.entry, "reverse");
    EXPECT_GT(entry.registers, 4);
    EXPECT_EQ(entry.barriers, 1);
    EXPECT_EQ(entry.max_threads, 128);
    EXPECT_EQ(entry.static_shared, 1200);
    EXPECT_EQ(binary->log.find("reverse: "), 0u) << binary->log;
    const auto cubin = read_cubin(binary->bytes);
    ASSERT_TRUE(cubin.ok());
    const Capability capability = capability_of(arch);
    EXPECT_EQ(cubin->capability, capability.major * 10 + capability.minor);
    EXPECT_EQ(cubin->entries, binary->resources) << arch;  // what the binary says is what the log says
  }
  EXPECT_EQ(compiler->compiles_started(), 6);
}

TEST(CudaCompiler, one_text_compiles_to_one_binary_and_one_log) {
  RTX_NEEDS_NVRTC();
  const auto one = compile(*make_compiler(options_here()), kReverse, "sm_90a"), two = compile(*make_compiler(options_here()), kReverse, "sm_90a");
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->bytes, two->bytes);
  EXPECT_EQ(one->log, two->log);
}

TEST(CudaCompiler, a_text_with_an_error_comes_back_with_the_compilers_words) {
  RTX_NEEDS_NVRTC();
  const auto front = compile(*make_compiler(options_here()), "extern \"C\" __global__ void k(float* p) { oops = 3; }", "sm_90a");
  ASSERT_FALSE(front.ok());
  EXPECT_EQ(front.error().kind, ErrorKind::internal);
  EXPECT_FALSE(is_rejected_binary(front.error()));
  EXPECT_NE(front.error().why.find("\"oops\" is undefined"), std::string::npos);
  const auto back = compile(*make_compiler(options_here()), "extern \"C\" __global__ void k(float* p) { asm volatile(\"wgmma.fence.sync.aligned;\"); }", "sm_100");
  ASSERT_FALSE(back.ok());
  EXPECT_NE(back.error().why.find("not supported on .target"), std::string::npos);
}

TEST(CudaCompiler, a_kernel_that_spills_is_rejected_and_not_called_a_failure) {
  RTX_NEEDS_NVRTC();
  const auto binary = compile(*make_compiler(options_here()), kSpills, "sm_90a");
  ASSERT_FALSE(binary.ok());
  EXPECT_TRUE(is_rejected_binary(binary.error()));
  EXPECT_EQ(binary.error().why.find("crowded spills: "), 0u) << binary.error().why;
}

TEST(CudaCompiler, local_memory_and_an_ignored_setmaxnreg_are_rejected) {
  RTX_NEEDS_NVRTC();
  const auto compiler = make_compiler(options_here());
  const auto local = compile(*compiler,
                             "extern \"C\" __global__ void k(float* p, const int* q) {\n  float a[64];\n"
                             "  for (int i = 0; i < 64; i++) a[i] = p[i] * p[i + 64];\n  for (int i = 0; i < 64; i++) a[q[i] & 63] += a[q[i + 1] & 63];\n"
                             "  p[threadIdx.x] = a[q[threadIdx.x] & 63];\n}",
                             "sm_80");
  ASSERT_FALSE(local.ok());
  EXPECT_TRUE(is_rejected_binary(local.error()));
  EXPECT_NE(local.error().why.find("256 bytes of local memory"), std::string::npos) << local.error().why;
  const auto ignored = compile(*compiler, "extern \"C\" __global__ void k(float* p) { asm volatile(\"setmaxnreg.dec.sync.aligned.u32 24;\"); }", "sm_90a");
  ASSERT_FALSE(ignored.ok());
  EXPECT_TRUE(is_rejected_binary(ignored.error()));
  EXPECT_NE(ignored.error().why.find("'setmaxnreg' ignored"), std::string::npos);
}

TEST(CudaCompiler, fused_multiply_add_is_only_where_the_text_writes_it) {
  RTX_NEEDS_NVRTC();
  const auto compiler = make_compiler(options_here());
  const std::string head = "extern \"C\" __global__ void k(float* p) { p[0] = ", tail = "; }";
  const auto apart = compile(*compiler, head + "__fadd_rn(__fmul_rn(p[1], p[2]), p[3])" + tail, "sm_90a");
  const auto written = compile(*compiler, head + "p[1] * p[2] + p[3]" + tail, "sm_90a");
  const auto fused = compile(*compiler, head + "__fmaf_rn(p[1], p[2], p[3])" + tail, "sm_90a");
  ASSERT_TRUE(apart.ok() && written.ok() && fused.ok());
  EXPECT_EQ(apart->bytes, written->bytes);
  EXPECT_NE(fused->bytes, written->bytes);
}

TEST(CudaCompiler, a_time_limit_ends_a_compilation) {
  RTX_NEEDS_NVRTC();
  const auto binary = compile(*make_compiler(options_here()), kSpills, "sm_90a", 0.0);
  ASSERT_FALSE(binary.ok());
  EXPECT_EQ(binary.error().kind, ErrorKind::internal);
  EXPECT_NE(binary.error().what.find("took longer than 0 s"), std::string::npos) << binary.error().what;
}

TEST(CudaCompiler, ctrl_c_ends_a_compilation) {
  RTX_NEEDS_NVRTC();
  const std::atomic<bool> stop{true};
  auto options = options_here();
  options.stop = &stop;
  const auto binary = compile(*make_compiler(options), kSpills, "sm_90a");
  ASSERT_FALSE(binary.ok());
  EXPECT_EQ(binary.error().kind, ErrorKind::interrupted);
}

TEST(CudaCompiler, several_threads_compile_at_once) {
  RTX_NEEDS_NVRTC();
  const auto compiler = make_compiler(options_here());
  const auto alone = compile(*compiler, kReverse, "sm_80");
  std::vector<Result<Binary>> made(4, Result<Binary>(Error{}));
  std::vector<std::thread> threads;
  for (auto& slot : made) threads.emplace_back([&compiler, &slot] { slot = compile(*compiler, kReverse, "sm_80"); });
  for (auto& thread : threads) thread.join();
  for (const auto& binary : made) {
    ASSERT_TRUE(binary.ok());
    EXPECT_EQ(binary->bytes, alone->bytes);
  }
}

TEST(CudaCompiler, the_toolchain_is_named_without_compiling_and_remembered) {
  RTX_NEEDS_NVRTC();
  const std::string directory = *make_temp_directory("/tmp", "rtx-cuda-");
  auto options = options_here();
  options.memory_file = directory + "/toolchains.txt";
  const auto compiler = make_compiler(options);
  const auto first = compiler->toolchain("sm_90a");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->find("nvrtc "), 0u);
  EXPECT_NE(first->find("--gpu-architecture=sm_90a --std=c++17 --fmad=false"), std::string::npos) << *first;
  EXPECT_EQ(compiler->compiles_started(), 0);
  EXPECT_NE(*compiler->toolchain("sm_80"), *first);
  // A second process reads the memory: what is written there is what it says.
  if (auto memory = read_file(options.memory_file); memory.ok()) {
    const size_t at = memory->find("nvrtc ");
    ASSERT_NE(at, std::string::npos);
    ASSERT_TRUE(write_file_atomic(options.memory_file, memory->substr(0, at) + "nvrtc 99.9 (1 bytes); arches 80\n").ok());
    EXPECT_EQ(make_compiler(options)->toolchain("sm_80")->find("nvrtc 99.9 (1 bytes); --gpu"), 0u);
    const auto unknown = make_compiler(options)->toolchain("sm_120");
    ASSERT_FALSE(unknown.ok());
    EXPECT_EQ(unknown.error().exit_code(), 4);
    EXPECT_EQ(unknown.error().what, "target cuda cannot compile for sm_120");
    EXPECT_EQ(unknown.error().why, "nvrtc 99.9 knows only sm_80");
  }
  remove_tree(directory);
}

TEST(CudaCompiler, an_arch_that_nvrtc_does_not_know_is_named_with_the_version) {
  RTX_NEEDS_NVRTC();
  const auto compiler = make_compiler(options_here());
  const auto old = compile(*compiler, kReverse, "sm_35");
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().exit_code(), 4);
  EXPECT_EQ(old.error().what, "target cuda cannot compile for sm_35");
  EXPECT_NE(old.error().why.find("knows only sm_"), std::string::npos);
  EXPECT_EQ(compile(*compiler, kReverse, "x86-64-v3").error().kind, ErrorKind::user);
  EXPECT_EQ(compiler->compiles_started(), 0);
}

TEST(CudaCompiler, without_a_library_each_question_gets_the_same_answer) {
  CompilerOptions options;
  options.search.library = "/nowhere/libnvrtc.so.13";
  const auto compiler = make_compiler(options);
  for (int i = 0; i < 2; ++i) {
    const auto named = compiler->toolchain("sm_90a");
    const auto made = compile(*compiler, kReverse, "sm_90a");
    ASSERT_FALSE(named.ok() || made.ok());
    EXPECT_EQ(made.error().exit_code(), 4);
    EXPECT_EQ(made.error().text(), named.error().text());
    EXPECT_EQ(made.error().what, "target cuda has no compiler");
    EXPECT_FALSE(made.error().why.empty() || made.error().fix.empty());
  }
  EXPECT_EQ(compiler->compiles_started(), 0);
}

// Instruction forms behind each feature of caps.cpp, tried on every arch of the list: there where the feature is claimed.
TEST(CudaCompiler, every_feature_of_the_table_assembles_exactly_where_it_is_claimed) {
  RTX_NEEDS_NVRTC();
  struct Form { const char* feature; const char* body; bool exactly; };
  const Form forms[] = {
      {"cp_async", "asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\" ::\"r\"(s), \"l\"(q));", true},
      {"ldmatrix", "unsigned a, b, c, d; asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\" : \"=r\"(a), \"=r\"(b), \"=r\"(c), \"=r\"(d) : \"r\"(s)); q[0] = a + b + c + d;", true},
      {"mma", "float a, b, c, d; asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%5,%5,%5,%5};\" : \"=f\"(a), \"=f\"(b), \"=f\"(c), \"=f\"(d) : \"r\"(s), \"f\"(0.f)); q[0] = a + b + c + d;", true},
      {"tf32", "float a, b, c, d; asm volatile(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%5,%5,%5,%5};\" : \"=f\"(a), \"=f\"(b), \"=f\"(c), \"=f\"(d) : \"r\"(s), \"f\"(0.f)); q[0] = a + b + c + d;", true},
      {"fp8", "float a, b, c, d; asm volatile(\"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%5,%5,%5,%5};\" : \"=f\"(a), \"=f\"(b), \"=f\"(c), \"=f\"(d) : \"r\"(s), \"f\"(0.f)); q[0] = a + b + c + d;", true},
      {"store_matrix", "asm volatile(\"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%0,%0,%0,%0};\" ::\"r\"(s));", true},
      {"mbarrier", "asm volatile(\"{ .reg .pred p; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16; mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; }\" ::\"r\"(s));", true},
      {"tma", "asm volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%0,%0}], [%0];\" ::\"r\"(s), \"l\"(q));", true},
      {"cluster", "asm volatile(\"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\");", false},  // assembles for sm_120, where it is not claimed
      {"wgmma", "asm volatile(\"wgmma.fence.sync.aligned;\");", true},
  };
  const auto compiler = make_compiler(options_here());
  for (const auto& arch : known_arches()) {
    const Caps caps = *caps_of_arch(arch);
    for (const auto& form : forms) {
      const auto binary = compile(*compiler, std::string("extern \"C\" __global__ void __launch_bounds__(128, 1) k(float* q) { const int s = threadIdx.x * 16; (void)s; ") + form.body + " }", arch);
      const bool assembles = binary.ok() || is_rejected_binary(binary.error());  // sm_120 wants local memory to make a tma's place uniform
      if (caps.has(form.feature)) {
        EXPECT_TRUE(assembles) << form.feature << " " << arch << ": " << (binary.ok() ? "" : binary.error().text());
      } else if (form.exactly) {
        EXPECT_FALSE(assembles) << form.feature << " assembles for " << arch;
      }
    }
    for (const auto& feature : caps.features)
      EXPECT_TRUE(std::any_of(std::begin(forms), std::end(forms), [&](const Form& form) { return feature == form.feature; })) << feature << " is never tried";
  }
}

}  // namespace
}  // namespace rtx::backend::cuda

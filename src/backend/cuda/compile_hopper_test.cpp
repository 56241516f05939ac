// The Hopper set as NVRTC takes it: what ptxas would serialise, ignore or spill is refused by the compiler, so compiling is the test.
#include <gtest/gtest.h>

#include "backend/cuda/caps.h"
#include "backend/cuda/compile_testing.h"
#include "backend/cuda/dialect.h"
#include "codegen/source.h"

namespace rtx::backend::cuda {
namespace {

// A product of bf16 matrices in the usual shape: one warpgroup loads, two multiply, a ring of four stages, stores through scratch.
const char* const kProduct = R"(
WGMMA_WIDTH(128)
constexpr int ST = 4, BM = 128, BN = 128, BK = 64, KT = 64, STAGE = (BM + BN) * BK * 2;
KERNEL_VIEWS(gemm, 3, 3, 384, 1) {
  u8* const s = static_cast<u8*>(scratch);
  Mbarrier* const full = reinterpret_cast<Mbarrier*>(s + ST * STAGE + BM * BN * 2);
  Mbarrier* const empty = full + ST;
  const int wg = warpgroup();
  if (thread() == 0) {
    for (int i = 0; i < ST; ++i) { mbarrier_init(full + i, 1); mbarrier_init(empty + i, 2); }
    mbarrier_init_done();
    prefetch_view(VIEW(0)); prefetch_view(VIEW(1)); prefetch_view(VIEW(2));
  }
  barrier();
  const int m0 = int(group()) / 32 * BM, n0 = int(group()) % 32 * BN;
  if (wg == 0) {
    registers_shrink<40>();
    if (thread() == 0) {
      for (int k = 0; k < KT; ++k) {
        const int st = k % ST;
        mbarrier_wait(empty + st, u32(k / ST & 1) ^ 1);
        mbarrier_expect(full + st, STAGE);
        load_view(s + st * STAGE, VIEW(0), full + st, k * BK, m0);
        load_view(s + st * STAGE + BM * BK * 2, VIEW(1), full + st, k * BK, n0);
      }
    }
  } else {
    registers_grow<232>();
    f32 d[64];
    for (int k = 0; k < KT; ++k) {
      const int st = k % ST;
      mbarrier_wait(full + st, u32(k / ST & 1));
      wgmma_fence();
      const u64 a = matrix_view(s + st * STAGE + (wg - 1) * 8192, 16, 1024, 128), b = matrix_view(s + st * STAGE + BM * BK * 2, 16, 1024, 128);
      UNROLL for (int q = 0; q < 4; ++q) wgmma<128>(d, matrix_view_step(a, q * 32), matrix_view_step(b, q * 32), k + q != 0, bf16{});
      wgmma_commit();
      wgmma_wait<0>();
      if (thread() % 128 == 0) mbarrier_arrive(empty + st);
    }
    u8* const c = s + ST * STAGE + (wg - 1) * 64 * BN * 2;
    UNROLL for (int j = 0; j < 8; ++j) {
      u32 r[4] = {pack_bf16(d[8*j], d[8*j+1]), pack_bf16(d[8*j+2], d[8*j+3]), pack_bf16(d[8*j+4], d[8*j+5]), pack_bf16(d[8*j+6], d[8*j+7])};
      const int row = wave() % 4 * 16 + wave_lane() % 16, chunk = j % 4 * 2 + wave_lane() / 16;
      store_matrix(c + j / 4 * 8192 + row * 128 + ((chunk ^ (row & 7)) * 16), r);
    }
    proxy_fence();
    barrier(wg, 128);
    if (thread() % 128 == 0) {
      store_view(VIEW(2), c, n0, m0 + (wg - 1) * 64);
      store_view(VIEW(2), c + 8192, n0 + 64, m0 + (wg - 1) * 64);
      store_view_commit();
      store_view_wait<0>();
    }
  }
}
)";

// Every other primitive once.
const char* const kEverything = R"(
WGMMA_WIDTH(64)
WGMMA_WIDTH(256)
WGMMA_WIDTH(8)
KERNEL_VIEWS_CLUSTER(all, 1, 4, 256, 1, 2) {
  u8* const s = static_cast<u8*>(scratch);
  Mbarrier* const bar = reinterpret_cast<Mbarrier*>(s + 65536);
  if (thread() == 0) { mbarrier_init(bar, 1); mbarrier_init_done(); }
  cluster_barrier();
  wait_dependency();
  if (warpgroup() == 0) {
    if (wave() == 0 && elect_one()) {
      mbarrier_expect(bar, 5 * 1024);
      load_view(s, VIEW(0), bar, 0, 1);
      load_view(s + 1024, VIEW(1), bar, 0, 1, 2);
      load_view(s + 2048, VIEW(2), bar, 0, 1, 2, 3);
      load_view(s + 3072, VIEW(3), bar, 0, 1, 2, 3, 4);
      load_view_multicast(s + 4096, VIEW(3), bar, 0, 1, 2, 3, 4, u16(3));
      mbarrier_arrive_remote(bar, cluster_rank() ^ 1);
      mbarrier_arrive(bar);
    }
    barrier_arrive(1, 256);
  } else {
    mbarrier_wait(bar, 0);
    barrier(1, 256);
    f32 d[32], e[128], h[4];
    const u32 a[4] = {1, 2, 3, 4};
    wgmma_fence();
    wgmma<64>(d, matrix_view(s, 16, 1024, 128), matrix_view(s, 16, 512, 64), false, f16{});
    wgmma<64, true, true>(d, matrix_view(s, 16, 1024, 128), matrix_view(s, 16, 512, 64), true, bf16{});
    wgmma<64, true>(d, a, matrix_view(s, 16, 512, 64), true, bf16{});
    wgmma<64>(d, a, matrix_view(s, 16, 512, 64), true, f16{});
    wgmma_tf32<64>(d, matrix_view(s, 16, 256, 32), matrix_view(s, 128, 256, 0), true);
    wgmma_e4m3<64>(d, matrix_view(s, 16, 256, 32), matrix_view(s, 128, 256, 0), true);
    wgmma<256>(e, matrix_view(s, 16, 1024, 128), matrix_view(s, 16, 512, 64), false, f16{});
    wgmma<8>(h, matrix_view(s, 16, 1024, 128), matrix_view(s, 16, 512, 64), false, f16{});
    wgmma_commit();
    wgmma_wait<0>();
    UNROLL for (int i = 0; i < 32; ++i) ARG(f32, 0)[i * 128 + thread() % 128] = d[i];
    UNROLL for (int i = 0; i < 128; ++i) ARG(f32, 0)[8192 + i * 128 + thread() % 128] = e[i];
    UNROLL for (int i = 0; i < 4; ++i) ARG(f32, 0)[88192 + i * 128 + thread() % 128] = h[i];
    proxy_fence();
    barrier(2, 128);
    if (thread() == 128) {
      store_view(VIEW(0), s, 0, 1);
      store_view(VIEW(1), s, 0, 1, 2);
      store_view(VIEW(2), s, 0, 1, 2, 3);
      store_view(VIEW(3), s, 0, 1, 2, 3, 4);
      store_view_commit();
      store_view_wait_read<1>();
      store_view_wait<0>();
    }
  }
  const f32 x = load_remote(static_cast<f32*>(scratch) + thread(), 1);
  const u64 y = load_remote(static_cast<u64*>(scratch) + thread(), 0);
  ARG(f32, 0)[thread()] = x + f32(y);
  cluster_barrier();
  launch_dependents();
}
)";

std::string text_for(const std::string& arch, const std::string& kernels) {
  codegen::Source source(make_dialect(*caps_of_arch(arch)), "test", "backend/cuda tests", "none", "0 Mflop");
  source.line(kernels);
  return source.take();
}

TEST(CudaHopper, a_ring_of_loads_under_asynchronous_products_keeps_its_speed) {
  RTX_NEEDS_NVRTC();
  const auto binary = testing::compile(*make_compiler(testing::options_here()), text_for("sm_90a", kProduct), "sm_90a");
  ASSERT_TRUE(binary.ok()) << binary.error().text();
  ASSERT_EQ(binary->resources.size(), 1u);
  EXPECT_EQ(binary->resources[0].max_threads, 384);
  EXPECT_EQ(binary->resources[0].stack, 0);
}

TEST(CudaHopper, every_primitive_of_the_set_assembles) {
  RTX_NEEDS_NVRTC();
  const auto binary = testing::compile(*make_compiler(testing::options_here()), text_for("sm_90a", kEverything), "sm_90a");
  ASSERT_TRUE(binary.ok()) << binary.error().text();
}

TEST(CudaHopper, only_the_arch_that_has_it_is_given_the_set) {
  for (const auto& arch : known_arches()) EXPECT_EQ(text_for(arch, "").find("wgmma") != std::string::npos, arch == "sm_90a") << arch;
}

TEST(CudaHopper, a_kernel_with_views_opens_with_their_number_and_its_cluster) {
  codegen::Source source(make_dialect(*caps_of_arch("sm_90a")), "test", "backend/cuda tests", "none", "0 Mflop");
  source.open_kernel("plain", 128, 2);
  source.close_kernel(3);
  source.open_kernel("viewed", 384, 1, 2);
  source.close_kernel(3);
  source.open_kernel("clustered", 256, 1, 0, 2);
  source.close_kernel(1);
  const std::string text = source.take();
  EXPECT_NE(text.find("\nKERNEL(plain, 3, 128, 2) {"), std::string::npos);
  EXPECT_NE(text.find("\nKERNEL_VIEWS(viewed, 3, 2, 384, 1) {"), std::string::npos);
  EXPECT_NE(text.find("\nKERNEL_VIEWS_CLUSTER(clustered, 1, 0, 256, 1, 2) {"), std::string::npos);
  RTX_NEEDS_NVRTC();
  EXPECT_TRUE(testing::compile(*make_compiler(testing::options_here()), text, "sm_90a").ok());
}

}  // namespace
}  // namespace rtx::backend::cuda

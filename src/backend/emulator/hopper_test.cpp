// The Hopper set at work: a ring of boxes under products of two warpgroups, against a sum in double, with ragged edges.
#include <cmath>
#include <cstring>

#include "backend/emulator/hopper_testing.h"

namespace rtx::backend::emulator {
namespace {

// c = a b^T of bf16: K contiguous in both. One warpgroup loads, two multiply and store their 64 rows through scratch.
const char* const kRingKernels = R"(
WGMMA_WIDTH(128)
KERNEL_VIEWS(ring, 4, 3, 384, 1) {
  constexpr int stages = 2, bm = 128, bn = 128, bk = 64, stage = (bm + bn) * bk * 2;
  u8* const s = static_cast<u8*>(scratch);
  Mbarrier* const full = reinterpret_cast<Mbarrier*>(s + stages * stage + bm * bn * 2);
  Mbarrier* const empty = full + stages;
  const int tiles_n = ARG(const i32, 3)[0], steps = ARG(const i32, 3)[1];
  const int m0 = int(group()) / tiles_n * bm, n0 = int(group()) % tiles_n * bn;
  if (thread() == 0) {
    for (int i = 0; i < stages; ++i) {
      mbarrier_init(full + i, 1);
      mbarrier_init(empty + i, 2);
    }
    mbarrier_init_done();
    prefetch_view(VIEW(0));
  }
  barrier();
  if (warpgroup() == 0) {
    registers_shrink<40>();
    if (thread() == 0) {
      for (int k = 0; k < steps; ++k) {
        u8* const at = s + k % stages * stage;
        mbarrier_wait(empty + k % stages, u32(k / stages & 1) ^ 1);
        mbarrier_expect(full + k % stages, stage);
        load_view(at, VIEW(0), full + k % stages, k * bk, m0);
        load_view(at + bm * bk * 2, VIEW(1), full + k % stages, k * bk, n0);
      }
    }
    return;
  }
  registers_grow<232>();
  const int w = warpgroup() - 1;
  f32 d[64];
  for (int k = 0; k < steps; ++k) {
    u8* const at = s + k % stages * stage;
    mbarrier_wait(full + k % stages, u32(k / stages & 1));
    wgmma_fence();
    const u64 a = matrix_view(at + w * 8192, 16, 1024, 128), b = matrix_view(at + bm * bk * 2, 16, 1024, 128);
    UNROLL for (int q = 0; q < 4; ++q) wgmma<128>(d, matrix_view_step(a, q * 32), matrix_view_step(b, q * 32), k + q != 0, bf16{});
    wgmma_commit();
    wgmma_wait<0>();
    if (thread() % 128 == 0) mbarrier_arrive(empty + k % stages);
  }
  u8* const c = s + stages * stage + w * 64 * bn * 2;
  UNROLL for (int j = 0; j < 8; ++j) {
    u32 r[4];
    UNROLL for (int i = 0; i < 4; ++i) r[i] = pack_bf16(d[8 * j + 2 * i], d[8 * j + 2 * i + 1]);
    const int row = wave() % 4 * 16 + wave_lane() % 16, chunk = j % 4 * 2 + wave_lane() / 16;
    store_matrix(c + j / 4 * 8192 + row * 128 + (chunk ^ (row & 7)) * 16, r);
  }
  proxy_fence();
  barrier(1 + w, 128);
  if (thread() % 128 == 0) {
    store_view(VIEW(2), c, n0, m0 + w * 64);
    store_view(VIEW(2), c + 8192, n0 + 64, m0 + w * 64);
    store_view_commit();
    store_view_wait<0>();
  }
}
)";

Rig& ring_rig() {
  static Rig instance(kRingKernels);
  return instance;
}

TEST(EmulatorHopper, a_ring_of_boxes_under_products_agrees_with_double_and_keeps_to_the_matrix) {
  struct Case {
    int64_t m, n, k;
  };
  for (const Case c : {Case{128, 128, 64}, Case{128, 256, 192}, Case{200, 136, 328}, Case{1, 8, 8}}) {
    const auto a = bf16_codes(static_cast<size_t>(c.m * c.k), 1), b = bf16_codes(static_cast<size_t>(c.n * c.k), 2);
    const int64_t tiles_m = (c.m + 127) / 128, tiles_n = (c.n + 127) / 128, steps = (c.k + 63) / 64;
    void* const out = ring_rig().put(std::vector<uint16_t>(static_cast<size_t>(c.m * c.n), 0x7fff));
    const std::vector<TensorView> views = {matrix_view(0, c.m, c.k, 128), matrix_view(1, c.n, c.k, 128), matrix_view(2, c.m, c.n, 64)};
    ASSERT_EQ(ring_rig().launch("ring", {tiles_m * tiles_n, 384, 2 * 32768 + 32768 + 64},
                                {ring_rig().put(a), ring_rig().put(b), out, ring_rig().put(std::vector<int32_t>{int32_t(tiles_n), int32_t(steps)})}, views), "");
    const auto got = ring_rig().get<uint16_t>(out, static_cast<size_t>(c.m * c.n));
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < c.k; ++k) sum += bf16_value(a[size_t(i * c.k + k)]) * bf16_value(b[size_t(j * c.k + k)]);
        ASSERT_NEAR(bf16_value(got[size_t(i * c.n + j)]), sum, 0.005 * std::fabs(sum) + 0.02) << i << ", " << j << " of " << c.m << " x " << c.n;
      }
  }
}

}  // namespace
}  // namespace rtx::backend::emulator

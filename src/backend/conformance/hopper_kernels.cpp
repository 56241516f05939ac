#include "backend/conformance/hopper_kernels.h"

namespace rtx::backend::conformance {

const char* const kBoxKernels = R"(
#define LOAD(R, COORDINATES)                                                          \
  KERNEL_VIEWS(load_##R, 3, 1, 128, 1) {                                              \
    u8* const s = static_cast<u8*>(scratch);                                          \
    const i32* const p = ARG(const i32, 2);                                           \
    Mbarrier* const loaded = reinterpret_cast<Mbarrier*>(s + p[0]);                   \
    if (thread() == 0) {                                                              \
      mbarrier_init(loaded, 1);                                                       \
      mbarrier_init_done();                                                           \
      mbarrier_expect(loaded, p[0]);                                                  \
      load_view(s, VIEW(0), loaded, COORDINATES);                                     \
    }                                                                                 \
    barrier();                                                                        \
    mbarrier_wait(loaded, 0);                                                         \
    for (int i = thread(); i < p[0]; i += threads()) ARG(u8, 1)[i] = s[i];            \
  }
#define STORE(R, COORDINATES)                                                         \
  KERNEL_VIEWS(store_##R, 2, 1, 128, 1) {                                             \
    u8* const s = static_cast<u8*>(scratch);                                          \
    const i32* const p = ARG(const i32, 1);                                           \
    for (int i = thread(); i < p[0]; i += threads()) s[i] = u8(i % 251);              \
    proxy_fence();                                                                    \
    barrier();                                                                        \
    if (thread() == 0) {                                                              \
      store_view(VIEW(0), s, COORDINATES);                                            \
      store_view_commit();                                                            \
      store_view_wait<0>();                                                           \
    }                                                                                 \
  }
#define TWO p[1], p[2]
#define THREE TWO, p[3]
#define FOUR THREE, p[4]
#define FIVE FOUR, p[5]
LOAD(2, TWO)
LOAD(3, THREE)
LOAD(4, FOUR)
LOAD(5, FIVE)
STORE(2, TWO)
STORE(3, THREE)
STORE(4, FOUR)
STORE(5, FIVE)
)";

const char* const kProductKernels = R"(
WGMMA_WIDTH(128)
WGMMA_WIDTH(64)
constexpr int b_at = 32768, loaded_at = 65536;
DEVICE void load_operands(const TensorMap* a, const TensorMap* b, const i32* p, int bytes) {
  u8* const s = static_cast<u8*>(scratch);
  Mbarrier* const loaded = reinterpret_cast<Mbarrier*>(s + loaded_at);
  if (thread() == 0) {
    mbarrier_init(loaded, 1);
    mbarrier_init_done();
    mbarrier_expect(loaded, bytes);
    const i32* box = p + 16;
    for (int i = 0; i < p[14]; ++i, box += 3) load_view(s + box[0], a, loaded, box[1], box[2]);
    for (int i = 0; i < p[15]; ++i, box += 3) load_view(s + box[0], b, loaded, box[1], box[2]);
  }
  barrier();
  mbarrier_wait(loaded, 0);
}
template <int N> DEVICE void give(f32* y, const f32 (&d)[N / 2]) {
  UNROLL for (int i = 0; i < N / 2; ++i) {
    const int row = wave() % 4 * 16 + wave_lane() / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + wave_lane() % 4 * 2 + i % 2;
    y[row * N + column] = d[i];
  }
}
template <bool TA, bool TB> DEVICE void product(const TensorMap* a, const TensorMap* b, f32* y, const i32* p) {
  u8* const s = static_cast<u8*>(scratch);
  load_operands(a, b, p, 64 * 64 * 2 + 128 * 64 * 2);
  f32 d[64];
  wgmma_fence();
  UNROLL for (int q = 0; q < 4; ++q)
    wgmma<128, TA, TB>(d, matrix_view(s + p[6 + q], p[0], p[1], p[2]), matrix_view(s + b_at + p[10 + q], p[3], p[4], p[5]), q != 0, bf16{});
  wgmma_commit();
  wgmma_wait<0>();
  give<128>(y, d);
}
KERNEL_VIEWS(product_00, 4, 2, 128, 1) { product<false, false>(VIEW(0), VIEW(1), ARG(f32, 2), ARG(const i32, 3)); }
KERNEL_VIEWS(product_01, 4, 2, 128, 1) { product<false, true>(VIEW(0), VIEW(1), ARG(f32, 2), ARG(const i32, 3)); }
KERNEL_VIEWS(product_10, 4, 2, 128, 1) { product<true, false>(VIEW(0), VIEW(1), ARG(f32, 2), ARG(const i32, 3)); }
KERNEL_VIEWS(product_11, 4, 2, 128, 1) { product<true, true>(VIEW(0), VIEW(1), ARG(f32, 2), ARG(const i32, 3)); }
template <bool TB> DEVICE void product_registers(const u16* a, const TensorMap* b, f32* y, const i32* p) {
  u8* const s = static_cast<u8*>(scratch);
  load_operands(b, b, p, 128 * 64 * 2);
  u32 registers[4][4];
  UNROLL for (int q = 0; q < 4; ++q)
    UNROLL for (int i = 0; i < 4; ++i) {
      const u16* const at = a + (wave() % 4 * 16 + wave_lane() / 4 + i % 2 * 8) * 64 + q * 16 + i / 2 * 8 + wave_lane() % 4 * 2;
      registers[q][i] = at[0] | u32(at[1]) << 16;
    }
  f32 d[64];
  wgmma_fence();
  UNROLL for (int q = 0; q < 4; ++q) wgmma<128, TB>(d, registers[q], matrix_view(s + b_at + p[10 + q], p[3], p[4], p[5]), q != 0, bf16{});
  wgmma_commit();
  wgmma_wait<0>();
  give<128>(y, d);
}
KERNEL_VIEWS(product_registers_0, 4, 2, 128, 1) { product_registers<false>(ARG(const u16, 0), VIEW(1), ARG(f32, 2), ARG(const i32, 3)); }
KERNEL_VIEWS(product_registers_1, 4, 2, 128, 1) { product_registers<true>(ARG(const u16, 0), VIEW(1), ARG(f32, 2), ARG(const i32, 3)); }
#define OTHER(NAME, CALL)                                                                                                 \
  KERNEL_VIEWS(product_##NAME, 4, 2, 128, 1) {                                                                            \
    u8* const s = static_cast<u8*>(scratch);                                                                              \
    const i32* const p = ARG(const i32, 3);                                                                               \
    load_operands(VIEW(0), VIEW(1), p, 64 * 128 + 64 * 128);                                                              \
    f32 d[32];                                                                                                            \
    UNROLL for (int i = 0; i < 32; ++i) d[i] = 100.f;                                                                     \
    wgmma_fence();                                                                                                        \
    UNROLL for (int q = 0; q < 4; ++q) {                                                                                  \
      const u64 a = matrix_view(s + p[6 + q], p[0], p[1], p[2]), b = matrix_view(s + b_at + p[10 + q], p[3], p[4], p[5]); \
      CALL;                                                                                                               \
    }                                                                                                                     \
    wgmma_commit();                                                                                                       \
    wgmma_wait<0>();                                                                                                      \
    give<64>(ARG(f32, 2), d);                                                                                             \
  }
OTHER(f16, wgmma<64>(d, a, b, true, f16{}))
OTHER(tf32, wgmma_tf32<64>(d, a, b, true))
OTHER(e4m3, wgmma_e4m3<64>(d, a, b, true))
)";

const char* const kRingKernel = R"(
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
  } else {
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
}
)";

const char* const kClusterKernel = R"(
KERNEL_VIEWS_CLUSTER(share, 2, 1, 128, 1, 2) {
  u8* const s = static_cast<u8*>(scratch);
  Mbarrier* const loaded = reinterpret_cast<Mbarrier*>(s + 8192);
  Mbarrier* const told = loaded + 1;
  i32* const number = reinterpret_cast<i32*>(s + 8192 + 16);
  if (thread() == 0) {
    mbarrier_init(loaded, 1);
    mbarrier_init(told, 1);
    mbarrier_init_done();
    mbarrier_expect(loaded, 8192);
    *number = 1000 + int(group());
  }
  cluster_barrier();
  const int rank = cluster_rank();
  if (thread() == 0) {
    load_view_multicast(s + rank * 4096, VIEW(0), loaded, 0, rank * 32 + int(group()) / 2 * 64, u16(3));
    mbarrier_arrive_remote(told, rank ^ 1);
  }
  mbarrier_wait(loaded, 0);
  mbarrier_wait(told, 0);
  i32* const y = ARG(i32, 1) + group() * 2049;
  for (int i = thread(); i < 2048; i += threads()) y[i] = reinterpret_cast<const i32*>(s)[i];
  if (thread() == 0) y[2048] = load_remote(number, rank ^ 1);
  cluster_barrier();
}
)";

}  // namespace rtx::backend::conformance

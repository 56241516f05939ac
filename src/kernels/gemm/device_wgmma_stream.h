#pragma once
// GEMM of f16 and bf16 with few rows of A: B is read once and fast. Products of a warpgroup have 64 columns of B on their M side and
// the rows of A (up to 128, in eights) on their N side (capabilities "tma", "wgmma", "cluster").
//
//   group     64 columns of C over one part of K: waves 0 to 3 multiply, the first thread of wave 4 copies
//   ring      STAGES times BK of K: of B 64 columns in blocks of 64 x 64, of A all ROWS rows
//   cluster   SPLIT groups with the same columns, each with its part of K; their sums are added in the order of ranks
//
// `P` as in device_wgmma.h, without tiles and schedules: ROWS, BK, STAGES, SPLIT, SPLIT_K, B_ALONG_K, A_BATCHES, B_BATCHES.
#include "kernels/gemm/device_wgmma.h"

namespace gemm {

template <class P> struct WgmmaStream {
  static constexpr int threads = 160, blocks = P::BK / 64, bytes_b = blocks * 8192, bytes_a = blocks * P::ROWS * 128, stage = bytes_b + bytes_a;
  static constexpr int pitch = 68;  // of a row's 64 sums in scratch
  static constexpr int sums_at = P::STAGES * stage, total_at = sums_at + P::ROWS * pitch * 4;
  static constexpr int barriers_at = total_at + (P::SPLIT > 1 ? P::ROWS * pitch * 4 : 0);
  static constexpr i64 scratch_bytes = barriers_at + 2 * P::STAGES * 8;
  static constexpr int n_tiles = int(parts(P::N, 64));
  static constexpr i64 groups = i64(n_tiles) * P::BATCHES * P::SPLIT;
  static_assert(P::ROWS % 8 == 0 && P::ROWS <= 128 && P::BK % 64 == 0 && P::SPLIT_K % P::BK == 0, "rows come in eights, K in blocks of 64");
};

template <class P, class Epilogue> DEVICE void wgmma_stream_columns(const TensorMap* a, const TensorMap* b, const Epilogue& epilogue) {
  using G = WgmmaStream<P>;
  u8* const stages = static_cast<u8*>(scratch);
  f32* const sums_here = reinterpret_cast<f32*>(stages + G::sums_at);
  Mbarrier* const full = reinterpret_cast<Mbarrier*>(stages + G::barriers_at);
  Mbarrier* const empty = full + P::STAGES;
  const int part = P::SPLIT > 1 ? cluster_rank() : 0, tile = int(u32(group()) / P::SPLIT);
  const int n = tile % G::n_tiles * 64, batch = tile / G::n_tiles;
  const int from = part * int(P::SPLIT_K), steps = int(parts(least(P::SPLIT_K, P::K - from), P::BK));
  if (thread() == 0) {
    UNROLL_BY(1) for (int s = 0; s < P::STAGES; ++s) {
      mbarrier_init(full + s, 1);
      mbarrier_init(empty + s, 1);
    }
    mbarrier_init_done();
  }
  barrier();
  RingPlace<P::STAGES> at;
  if (wave() == 4) {
    if (wave_lane() == 0) {
      UNROLL_BY(1) for (int step = 0; step < steps; ++step, at.next()) {
        mbarrier_wait(empty + at.stage, at.parity ^ 1);
        mbarrier_expect(full + at.stage, G::stage);
        u8* const to = stages + at.stage * G::stage;
        UNROLL for (int i = 0; i < G::blocks; ++i) {
          const int k = from + step * P::BK + i * 64;
          load_block<P::B_ALONG_K, P::B_BATCHES, 64>(to + i * 8192, b, full + at.stage, n, k, batch);
          load_block<true, P::A_BATCHES, P::ROWS>(to + G::bytes_b + i * P::ROWS * 128, a, full + at.stage, 0, k, batch);
        }
      }
    }
    wave_barrier();
  } else {
    f32 sums[P::ROWS / 2];
    UNROLL_BY(1) for (int step = 0; step < steps; ++step, at.next()) {
      mbarrier_wait(full + at.stage, at.parity);
      const u8* const block = stages + at.stage * G::stage;
      wgmma_fence();
      UNROLL for (int i = 0; i < G::blocks; ++i) {
        const u64 columns = block_view<P::B_ALONG_K>(block + i * 8192, 0), rows = block_view<true>(block + G::bytes_b + i * P::ROWS * 128, 0);
        UNROLL for (int k = 0; k < 4; ++k)
          wgmma<P::ROWS, !P::B_ALONG_K, false>(sums, block_step<P::B_ALONG_K>(columns, k), block_step<true>(rows, k), step > 0 || i > 0 || k > 0, typename P::A{});
      }
      wgmma_commit();
      wgmma_wait<0>();
      if (thread() == 0) mbarrier_arrive(empty + at.stage);
    }
    // As rows of C.
    f32* const mine = sums_here + wave_lane() % 4 * 2 * G::pitch + wave() * 16 + wave_lane() / 4;
    UNROLL for (int j = 0; j < P::ROWS / 8; ++j)
      UNROLL for (int h = 0; h < 2; ++h)
        UNROLL for (int e = 0; e < 2; ++e) mine[(j * 8 + e) * G::pitch + h * 8] = sums[j * 4 + h * 2 + e];
  }

  const int count = n + 64 <= P::N ? 64 : int(P::N) - n;
  if constexpr (P::SPLIT > 1) {
    // Each group of the cluster adds up every SPLIT-th row, and finishes it.
    f32* const total = reinterpret_cast<f32*>(stages + G::total_at);
    cluster_barrier();
    UNROLL_BY(1) for (int i = thread(); i < P::ROWS / P::SPLIT * 64; i += G::threads) {
      const int place = (i / 64 * P::SPLIT + part) * G::pitch + i % 64;
      f32 sum = load_remote(sums_here + place, 0);
      UNROLL for (int r = 1; r < P::SPLIT; ++r) sum = sum + load_remote(sums_here + place, r);
      total[place] = sum;
    }
    cluster_barrier();  // nobody leaves while others read
    if (thread() < 128)
      UNROLL_BY(1) for (int m = thread() / P::ROW_THREADS * P::SPLIT + part; m < P::M; m += 128 / P::ROW_THREADS * P::SPLIT)
        epilogue.row(total + m * G::pitch, batch, m, n, count, thread() % P::ROW_THREADS);
  } else {
    barrier();
    if (thread() < 128)
      UNROLL_BY(1) for (int m = thread() / P::ROW_THREADS; m < P::M; m += 128 / P::ROW_THREADS)
        epilogue.row(sums_here + m * G::pitch, batch, m, n, count, thread() % P::ROW_THREADS);
  }
}

}  // namespace gemm

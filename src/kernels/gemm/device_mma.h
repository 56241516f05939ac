#pragma once
// GEMM of f16 and bf16 by tensor cores (mma 16 x 8 x 16, f32 sums), capabilities "mma", "ldmatrix", "cp_async".
//
//   scratch   STAGES blocks of A (BM x BK) and B (BN x BK); copies run STAGES - 1 blocks ahead
//   wave      (BM / WAVES_M) x (BN / WAVES_N); fragments of the next 16 of K are loaded while those of this 16 multiply
//
// A block lies as its matrix does: lines along K, or lines along M or N that load_matrix turns. The 16-byte chunks of a line are
// permuted by its number, so that neither copies nor fragment loads meet in a bank. `P` as in device_gpu.h. Every element is one
// chain over K in steps of 16, whatever the parameters but SPLIT.
#include "kernels/gemm/device_gpu.h"

namespace gemm {

// ROWS x BK of an operand with strides ROW and DEPTH, whose matrix has ALL_ROWS rows and ALL_DEPTH depths.
template <int ROWS, int BK, i64 ROW, i64 DEPTH, i64 ALL_ROWS, i64 ALL_DEPTH, int THREADS> struct Block {
  static constexpr bool along_k = DEPTH == 1 || ROW != 1;
  static constexpr int lines = along_k ? ROWS : BK, chunks = (along_k ? BK : ROWS) / 8;
  static constexpr int bytes = ROWS * BK * 2, count = lines * chunks, each = (count + THREADS - 1) / THREADS;
  static constexpr i64 line_step = along_k ? ROW : DEPTH, element_step = along_k ? DEPTH : ROW;
  static constexpr bool whole = ALL_ROWS % ROWS == 0 && ALL_DEPTH % BK == 0;  // no block is ragged
  // Chunks are aligned where the matrix begins so.
  static constexpr bool in_chunks = element_step == 1 && line_step % 8 == 0;
  static_assert(chunks % 8 == 0 || 8 % chunks == 0, "a line permutes within itself");

  // Byte of a chunk; the permutation repeats every 8 lines. Unsigned arithmetic and places that are fixed before the loop over K keep
  // addresses in few registers.
  static constexpr u32 line_bytes = chunks * 16;
  DEVICE static constexpr u32 place(u32 line, u32 chunk) {
    constexpr u32 lines_of_128 = chunks >= 8 ? 1 : 8 / chunks, mask = chunks >= 8 ? 7 : chunks - 1;
    return line * line_bytes + (chunk ^ (line / lines_of_128 & mask)) * 16;
  }

  // Copies: a thread has one chunk of every `apart`-th line.
  static constexpr int apart = THREADS / chunks;
  static constexpr bool even = THREADS % chunks == 0 && apart % 8 == 0;
  template <bool CHUNKS, class S> DEVICE static void copy(u8* to, const S* from, i64 rows, i64 depth) {
    const i64 lines_left = along_k ? rows : depth, elements_left = along_k ? depth : rows;
    if constexpr (CHUNKS) {
      const u32 first = u32(thread()), line0 = first / chunks, chunk0 = first % chunks;
      u8* const own = to + place(line0, chunk0);
      const S* const source = from + (i64(line0) * line_step + chunk0 * 8);
      const i64 left = elements_left - i64(chunk0) * 8;
      const int some = whole ? 16 : int(greatest(0, least(8, left))) * 2;
      UNROLL for (int e = 0; e < each; ++e) {
        if constexpr (even) {
          if (count % THREADS != 0 && first + e * THREADS >= u32(count)) continue;
          const int valid = whole || line0 + e * apart < lines_left ? some : 0;
          copy_async<16>(own + e * apart * line_bytes, source + e * apart * line_step, valid);
        } else {
          const u32 i = first + e * THREADS, line = i / chunks, chunk = i % chunks;
          if (count % THREADS != 0 && i >= u32(count)) continue;
          const int valid = whole ? 16 : line < lines_left ? int(greatest(0, least(8, elements_left - i64(chunk) * 8))) * 2 : 0;
          copy_async<16>(to + place(line, chunk), from + (line * line_step + chunk * 8), valid);
        }
      }
    } else {
      const auto one = [&](u32 i) {
        const u32 line = i / chunks, chunk = i % chunks;
        const S* const p = from + (line * line_step + chunk * 8 * element_step);
        Bytes<16> held;
        UNROLL for (int w = 0; w < 4; ++w) {
          u32 pair[2] = {0, 0};
          UNROLL for (int l = 0; l < 2; ++l)
            if (line < lines_left && chunk * 8 + w * 2 + l < elements_left) pair[l] = p[(w * 2 + l) * element_step].bits;
          held.word[w] = pair[0] | pair[1] << 16;
        }
        store_bytes<16>(to + place(line, chunk), held);
      };
      // Four at once where this is the only way: their loads hide each other's latency.
      if constexpr (in_chunks) UNROLL_BY(1) for (u32 i = u32(thread()); i < u32(count); i += THREADS) one(i);
      else UNROLL_BY(4) for (u32 i = u32(thread()); i < u32(count); i += THREADS) one(i);
    }
  }

  // Fragments: 16 rows from `row` + 16 i, 16 depths from 16 `step`. Along K a lane's place depends on the step, else on i; the other
  // adds a constant.
  static constexpr int steps = BK / 16;
  template <int TILES> struct Places { u32 at[along_k ? steps : TILES]; };
  template <int TILES> DEVICE static Places<TILES> places_a(u32 row) {
    const u32 l = u32(wave_lane());
    Places<TILES> p;
    if constexpr (along_k) UNROLL for (int s = 0; s < steps; ++s) p.at[s] = place(row + l % 16, s * 2 + l / 16);
    else UNROLL for (int i = 0; i < TILES; ++i) p.at[i] = place(l / 16 * 8 + l % 8, row / 8 + i * 2 + l / 8 % 2);
    return p;
  }
  template <int TILES> DEVICE static Places<TILES> places_b(u32 row) {
    const u32 l = u32(wave_lane());
    Places<TILES> p;
    if constexpr (along_k) UNROLL for (int s = 0; s < steps; ++s) p.at[s] = place(row + l / 16 * 8 + l % 8, s * 2 + l / 8 % 2);
    else UNROLL for (int i = 0; i < TILES; ++i) p.at[i] = place(l % 16, row / 8 + i * 2 + l / 16);
    return p;
  }
  // As A's fragment, or as two neighbouring ones of B: {r[0], r[1]} and {r[2], r[3]}.
  template <int TILES> DEVICE static void load_tiles(u32 (&r)[TILES][4], const u8* block, const Places<TILES>& p, int step) {
    UNROLL for (int i = 0; i < TILES; ++i) {
      if constexpr (along_k) load_matrix<4>(r[i], block + p.at[step] + i * 16 * line_bytes);
      else load_matrix_transposed<4>(r[i], block + p.at[i] + step * 16 * line_bytes);
    }
  }
};

template <class P> struct Mma {
  static constexpr int waves = P::WAVES_M * P::WAVES_N, threads = waves * WAVE;
  static constexpr int wave_m = P::BM / P::WAVES_M, wave_n = P::BN / P::WAVES_N;
  static constexpr int mt = wave_m / 16, nt = wave_n / 8, steps = P::BK / 16;
  using BlockA = Block<P::BM, P::BK, P::a_row, P::a_col, P::M, P::K, threads>;
  using BlockB = Block<P::BN, P::BK, P::b_col, P::b_row, P::N, P::K, threads>;
  static constexpr int stage_bytes = BlockA::bytes + BlockB::bytes;
  static constexpr int pitch = wave_n + 8;  // a wave's sums on their way to the epilogue, 16 rows at a time
  static constexpr i64 scratch_bytes = greatest(i64(P::STAGES) * stage_bytes, i64(waves) * 16 * pitch * 4);
  static_assert(steps % 2 == 0 && wave_m % 16 == 0 && wave_n % 16 == 0, "fragments come in pairs");
};

// sums += the part of A B from `at` on; `a` and `b` point at its first elements.
template <class P, bool CHUNKS>
DEVICE void mma_loop(f32 (&sums)[Mma<P>::mt][Mma<P>::nt][4], const typename P::A* a, const typename P::B* b, const Place& at) {
  using G = Mma<P>;
  u8* const stages = static_cast<u8*>(scratch);
  const int wave_m = wave() / P::WAVES_N * G::wave_m, wave_n = wave() % P::WAVES_N * G::wave_n;
  const int blocks = int(parts(at.k_end - at.k, P::BK));
  constexpr u32 end = P::STAGES * G::stage_bytes;
  int copied = 0;          // blocks
  u32 to = 0, from = 0;    // stages, in bytes
  const auto copy = [&] {
    if (copied < blocks) {
      const i64 depth = at.k_end - at.k - i64(copied) * P::BK;
      G::BlockA::template copy<CHUNKS>(stages + to, a, P::M - at.m, depth);
      G::BlockB::template copy<CHUNKS>(stages + to + G::BlockA::bytes, b, P::N - at.n, depth);
      a += P::BK * P::a_col;
      b += P::BK * P::b_row;
      ++copied;
      to = to + G::stage_bytes == end ? 0 : to + G::stage_bytes;
    }
    copy_async_commit();
  };
  const auto places_a = G::BlockA::template places_a<G::mt>(u32(wave_m));
  const auto places_b = G::BlockB::template places_b<G::nt / 2>(u32(wave_n));
  u32 fragments_a[2][G::mt][4], fragments_b[2][G::nt / 2][4];
  const auto load_fragments = [&](int into, int step) {
    G::BlockA::template load_tiles<G::mt>(fragments_a[into], stages + from, places_a, step);
    G::BlockB::template load_tiles<G::nt / 2>(fragments_b[into], stages + from + G::BlockA::bytes, places_b, step);
  };

  UNROLL for (int s = 0; s < P::STAGES - 1; ++s) copy();
  copy_async_wait<P::STAGES - 2>();
  barrier();
  load_fragments(0, 0);
  UNROLL_BY(1) for (int block = 0; block < blocks; ++block) {
    UNROLL for (int step = 0; step < G::steps; ++step) {
      if (step == G::steps - 1) {  // the next block has come, and all have read the last of this one
        copy_async_wait<P::STAGES - 2>();
        barrier();
        from = from + G::stage_bytes == end ? 0 : from + G::stage_bytes;
      }
      load_fragments((step + 1) % 2, (step + 1) % G::steps);
      if (step == 0) copy();  // over the block before this one
      UNROLL for (int i = 0; i < G::mt; ++i)
        UNROLL for (int j = 0; j < G::nt; ++j) {
          const u32(&pair)[4] = fragments_b[step % 2][j / 2];
          const u32 column[2] = {pair[j % 2 * 2], pair[j % 2 * 2 + 1]};
          mma_16x8x16(sums[i][j], fragments_a[step % 2][i], column, typename P::A{});
        }
    }
  }
  barrier();
}

template <class P, class Epilogue> DEVICE void mma_tile(const typename P::A* a, const typename P::B* b, const Epilogue& epilogue, i64 g) {
  using G = Mma<P>;
  const Place at = place_of<P>(g);
  f32 sums[G::mt][G::nt][4];
  UNROLL for (int i = 0; i < G::mt; ++i)
    UNROLL for (int j = 0; j < G::nt; ++j)
      UNROLL for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.f;
  if constexpr (P::K > 0) {
    a += P::a_offset(at.batch) + at.m * P::a_row + at.k * P::a_col;
    b += P::b_offset(at.batch) + at.n * P::b_col + at.k * P::b_row;
    if constexpr (G::BlockA::in_chunks && G::BlockB::in_chunks) {
      // Inputs may begin at any element: one answer for the whole group.
      if (((reinterpret_cast<u64>(a) | reinterpret_cast<u64>(b)) & 15) == 0) mma_loop<P, true>(sums, a, b, at);
      else mma_loop<P, false>(sums, a, b, at);
    } else {
      mma_loop<P, false>(sums, a, b, at);
    }
  }

  const int wave_m = wave() / P::WAVES_N * G::wave_m, wave_n = wave() % P::WAVES_N * G::wave_n;
  f32* const staged = static_cast<f32*>(scratch) + wave() * 16 * G::pitch;
  f32* const mine = staged + wave_lane() / 4 * G::pitch + wave_lane() % 4 * 2;
  UNROLL for (int i = 0; i < G::mt; ++i) {
    UNROLL for (int j = 0; j < G::nt; ++j)
      UNROLL for (int h = 0; h < 2; ++h)
        store_aligned(mine + h * 8 * G::pitch + j * 8, by_lane<vec<f32, 2>>([&](int e) { return sums[i][j][h * 2 + e]; }));
    wave_barrier();
    finish_rows<P, 16, G::wave_n, G::pitch>(staged, epilogue, at.batch, at.m + wave_m + i * 16, at.n + wave_n);
    wave_barrier();
  }
}

}  // namespace gemm

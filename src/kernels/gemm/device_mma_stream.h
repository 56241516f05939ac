#pragma once
// A few rows of A (at most 32) against a B that is read once, by tensor cores (mma 16 x 8 x 16, f32 sums), capability "mma". Memory
// bandwidth is the limit: B goes from memory straight into the fragments of its columns, 16 bytes a lane and load, without a barrier.
//
// A sum does not care which depth is called which, as long as A and B agree: lane (g, t) of a fragment takes 8 consecutive depths of
// its row of A and its column of B where the instruction would have four pairs. With g = lane / 4, t = lane % 4:
//
//   B along K (b_row == 1)   a step is 64 depths: two pieces of 8 depths, at 8 t and 32 + 8 t, of column 8 c + g
//   B along N (b_col == 1)   a step is 32 depths: rows 8 t ... 8 t + 7, WIDTH columns from WIDTH g on; pairs of rows are interleaved
//
//   group = BN columns of one batch entry, all M rows, all of K or one of SPLIT parts
//   wave  = BN / WAVES_N columns; WAVES_K waves take turns along K, STAGES steps of each are under way
//
// Sums of waves are added in order. `P` as in device_gpu_stream.h; K, a_row and what separates lines of B are multiples of 8.
#include "kernels/gemm/device_gpu_stream.h"

namespace gemm {

template <class P> struct MmaStream {
  using T = typename P::T;
  static constexpr int threads = P::WAVES_N * P::WAVES_K * WAVE;
  static constexpr bool along_k = P::b_row == 1;
  static constexpr int columns = P::BN / P::WAVES_N;                // of a wave
  static constexpr int tiles = columns / 8;                         // of 8 columns
  static constexpr int width = along_k ? 8 : tiles;                 // elements of a lane's piece of B
  static constexpr int step = along_k ? 64 : 32;                    // depths
  static constexpr int pieces_a = step / 32;                        // of 8 depths, a row and lane
  static constexpr int pieces_b = along_k ? 2 * tiles : 8;          // a lane
  static constexpr int row_tiles = int(parts(P::M, 16));
  static constexpr int halves = P::M <= 8 ? 1 : 2;                  // a fragment's rows g, and g + 8
  static constexpr i64 scratch_bytes = i64(P::WAVES_K) * P::M * P::BN * i64(sizeof(T));
  static_assert(along_k ? tiles >= 1 : width == 4 || width == 8, "a lane's pieces of B are 8 or 16 bytes");
  static_assert(P::M <= 32 && P::K % 8 == 0 && P::a_col == 1 && P::a_row % 8 == 0 && (along_k ? P::b_col : P::b_row) % 8 == 0, "lines are whole pieces");
};

// B bytes at p where `exists`, else zeros; element by element where the matrix does not begin at a multiple of B, one piece after the
// other, so that single elements on their way take few registers. All lanes call it.
template <int B, bool ALIGNED, class S> DEVICE Bytes<B> piece_at(const S* p, bool exists) {
  Bytes<B> r{};
  if constexpr (ALIGNED) {
    if (exists) r = load_bytes<B>(p);
  } else {
    wave_barrier();
    if (exists) UNROLL for (int w = 0; w < B / 4; ++w) r.word[w] = u32(p[2 * w].bits) | u32(p[2 * w + 1].bits) << 16;
  }
  return r;
}

// One step of a wave: what it loads, and what it adds.
template <class P, bool ALIGNED> struct MmaStreamStep {
  using G = MmaStream<P>;
  static constexpr int bytes_b = G::width * 2;
  Bytes<16> a[G::row_tiles][G::halves][G::pieces_a];
  Bytes<bytes_b> b[G::pieces_b];

  // From the lane's own rows and columns on; `left` depths exist. What does not exist is 0.
  DEVICE void fetch(const typename P::A* from_a, const typename P::B* from_b, i64 left, const i64 (&column)[G::tiles]) {
    const int g = wave_lane() / 4, t = wave_lane() % 4;
    UNROLL for (int p = 0; p < G::pieces_a; ++p) {
      const bool inside = 32 * p + 8 * t < left;
      UNROLL for (int i = 0; i < G::row_tiles; ++i)
        UNROLL for (int h = 0; h < G::halves; ++h) {
          const int row = 16 * i + 8 * h;
          a[i][h][p] = piece_at<16, ALIGNED>(from_a + row * P::a_row + 32 * p, inside && g + row < P::M);
        }
      if constexpr (G::along_k)
        UNROLL for (int c = 0; c < G::tiles; ++c) b[2 * c + p] = piece_at<bytes_b, ALIGNED>(from_b + column[c] + 32 * p, inside);
      else
        UNROLL for (int d = 0; d < 8; ++d) b[d] = piece_at<bytes_b, ALIGNED>(from_b + d * P::b_row, inside);
    }
  }
  DEVICE void multiply(f32 (&sums)[G::row_tiles][G::tiles][4]) const {
    UNROLL for (int p = 0; p < G::step / 32; ++p)
      UNROLL for (int q = 0; q < 2; ++q) {  // 16 of a piece's 32 depths: words 2 q and 2 q + 1 of all lanes
        u32 x[G::row_tiles][4];
        UNROLL for (int i = 0; i < G::row_tiles; ++i)
          UNROLL for (int c = 0; c < 2; ++c) {
            x[i][2 * c] = a[i][0][p].word[2 * q + c];
            x[i][2 * c + 1] = G::halves == 2 ? a[i][G::halves - 1][p].word[2 * q + c] : 0;
          }
        UNROLL for (int c = 0; c < G::tiles; ++c) {
          const u32 y[2] = {fragment(c, p, 2 * q), fragment(c, p, 2 * q + 1)};
          UNROLL for (int i = 0; i < G::row_tiles; ++i) mma_16x8x16(sums[i][c], x[i], y, typename P::B{});
        }
      }
  }
  // Depths 2 w and 2 w + 1 of the lane's eight, of its column of tile c.
  DEVICE u32 fragment(int c, int p, int w) const {
    if constexpr (G::along_k) {
      return b[2 * c + p].word[w];
    } else {
      const u32 even = b[2 * w].word[c / 2], odd = b[2 * w + 1].word[c / 2];
      return c % 2 == 0 ? (even & 0xffff) | odd << 16 : even >> 16 | (odd & 0xffff0000u);
    }
  }
};

template <class P, bool ALIGNED, int STAGES>
DEVICE void mma_stream_sums(f32 (&sums)[MmaStream<P>::row_tiles][MmaStream<P>::tiles][4], const typename P::A* a, const typename P::B* b, i64 columns,
                            i64 depth, int turn) {
  using G = MmaStream<P>;
  const int g = wave_lane() / 4, t = wave_lane() % 4;
  i64 column[G::tiles] = {};  // one that does not exist repeats the last
  a += g * P::a_row + 8 * t;
  if constexpr (G::along_k) {
    b += 8 * t;
    UNROLL for (int c = 0; c < G::tiles; ++c) column[c] = (P::N % P::BN == 0 ? 8 * c + g : least(8 * c + g, columns - 1)) * P::b_col;
  } else {
    b += 8 * t * P::b_row + (P::N % P::BN == 0 ? G::width * g : least(G::width * g, columns - G::width));
  }
  constexpr i64 stride = i64(P::WAVES_K) * G::step;
  MmaStreamStep<P, ALIGNED> held[STAGES];
  i64 left = depth - i64(turn) * G::step;  // at the step that multiplies next
  a += i64(turn) * G::step, b += i64(turn) * G::step * P::b_row;
  const auto advance = [&] { a += stride, b += stride * P::b_row; };
  UNROLL for (int s = 0; s < STAGES; ++s) held[s].fetch(a, b, left - s * stride, column), advance();
  // The condition keeps steps apart: a compiler that mixes them holds all their fragments at once.
  UNROLL_BY(1) for (; left > 0; left -= STAGES * stride)
    UNROLL for (int s = 0; s < STAGES; ++s) {
      if (left > s * stride) held[s].multiply(sums);
      held[s].fetch(a, b, left - (STAGES + s) * stride, column), advance();
    }
}

template <class P, class Epilogue> DEVICE void mma_stream_columns(const typename P::A* a, const typename P::B* b, const Epilogue& epilogue, i64 group) {
  using G = MmaStream<P>;
  const Place at = place_of<P>(group);
  const int wave_n = wave() / P::WAVES_K, wave_k = wave() % P::WAVES_K, first = wave_n * G::columns;
  const i64 columns = P::N - at.n - first, depth = at.k_end - at.k;
  f32 sums[G::row_tiles][G::tiles][4];
  UNROLL for (int i = 0; i < G::row_tiles; ++i)
    UNROLL for (int c = 0; c < G::tiles; ++c)
      UNROLL for (int e = 0; e < 4; ++e) sums[i][c][e] = 0;
  if (columns > 0) {
    a += P::a_offset(at.batch) + at.k;
    b += P::b_offset(at.batch) + (at.n + first) * P::b_col + at.k * P::b_row;
    if (((reinterpret_cast<u64>(a) | reinterpret_cast<u64>(b)) & 15) == 0) mma_stream_sums<P, true, P::STAGES>(sums, a, b, columns, depth, wave_k);
    else mma_stream_sums<P, false, 1>(sums, a, b, columns, depth, wave_k);
  }

  f32* const all = static_cast<f32*>(scratch) + wave_k * P::M * P::BN;  // [WAVES_K][M][BN]
  const int g = wave_lane() / 4, t = wave_lane() % 4;
  UNROLL for (int i = 0; i < G::row_tiles; ++i)
    UNROLL for (int c = 0; c < G::tiles; ++c)
      UNROLL for (int e = 0; e < 4; ++e) {
        const int row = 16 * i + 8 * (e / 2) + g, column = G::along_k ? 8 * c + 2 * t + e % 2 : G::width * (2 * t + e % 2) + c;
        if (row < P::M) all[row * P::BN + first + column] = sums[i][c][e];
      }
  finish_waves<P, G::threads>(epilogue, at);
}

}  // namespace gemm

#pragma once
// A few rows of A against a B that is read once: memory bandwidth is the limit, so B goes from memory to registers, 16 bytes a thread
// and load, and many threads share K.
//
//   group = BN columns of one batch entry, all M rows, all of K or one of SPLIT parts
//   B along K (b_row == 1)   a wave has BN / WAVES_N columns; its lanes, and WAVES_K waves, take turns along K
//   B along N (b_col == 1)   a lane has one 16-byte vector of columns; lanes beside BN, and WAVES_K waves, take turns along K
//
// Sums of lanes are added by a fixed tree, those of waves in order. `P` as in device_gpu.h, with BM = M and WAVES_K.
#include "kernels/gemm/device_gpu.h"

namespace gemm {

template <class P> struct Stream {
  using T = typename P::T;
  static constexpr int threads = P::WAVES_N * P::WAVES_K * WAVE;
  static constexpr bool along_k = P::b_row == 1;
  static constexpr int width = 16 / int(sizeof(typename P::B));                 // elements of 16 bytes
  static constexpr int columns = along_k ? P::BN / P::WAVES_N : width;          // of a thread
  static constexpr int across = along_k ? 1 : P::BN / width / P::WAVES_N;       // lanes of a wave side by side along N
  static constexpr int unroll = along_k ? (P::M * columns > 16 ? 1 : 2) : 4;    // loads of B under way, a column or row each
  static constexpr i64 scratch_bytes = i64(P::WAVES_K) * P::M * P::BN * i64(sizeof(T));
  static_assert(across >= 1 && WAVE % across == 0, "a wave is whole rows of B");
};

// One B along K: sums[m][c] of columns from b on, of which `columns` exist.
template <class P, bool ALIGNED, class Sums>
DEVICE void stream_along_k(Sums& sums, const typename P::A* a, const typename P::B* b, i64 columns, i64 depth, int turn) {
  using G = Stream<P>;
  using V = vec<typename P::T, G::width>;
  constexpr i64 step = i64(P::WAVES_K) * WAVE * G::width;
  i64 column[G::columns];  // one that does not exist repeats the last
  UNROLL for (int c = 0; c < G::columns; ++c) column[c] = least(c, columns - 1) * P::b_col;
  const auto row_of_a = [&](int m, i64 k) {
    if constexpr (ALIGNED && P::a_col == 1 && P::a_row % G::width == 0) return aligned<V>(a + m * P::a_row + k);
    else return load_strided<V>(a + m * P::a_row + k * P::a_col, P::a_col);
  };
  const auto fetch = [&](V (&y)[G::columns], i64 k) {
    UNROLL for (int c = 0; c < G::columns; ++c) {
      if constexpr (ALIGNED) y[c] = aligned<V>(b + column[c] + k);
      else y[c] = load<V>(b + column[c] + k);
    }
  };
  const auto add = [&](const V (&y)[G::columns], i64 k) {
    UNROLL for (int m = 0; m < P::M; ++m) {
      const V x = row_of_a(m, k);
      UNROLL for (int c = 0; c < G::columns; ++c)
        UNROLL for (int l = 0; l < G::width; ++l) sums[m][c] = math::fma(lane(x, l), lane(y[c], l), sums[m][c]);
    }
  };
  i64 k = i64(turn) * G::width;
  V y[G::unroll][G::columns];
  UNROLL_BY(1) for (; k + (G::unroll - 1) * step + G::width <= depth; k += G::unroll * step) {
    UNROLL for (int u = 0; u < G::unroll; ++u) fetch(y[u], k + u * step);
    UNROLL for (int u = 0; u < G::unroll; ++u) add(y[u], k + u * step);
  }
  UNROLL_BY(1) for (; G::unroll > 1 && k + G::width <= depth; k += step) fetch(y[0], k), add(y[0], k);
  UNROLL_BY(1) for (const i64 end = least(depth, k + G::width); k < end; ++k)  // what is no whole vector: one lane of all
    UNROLL for (int m = 0; m < P::M; ++m)
      UNROLL for (int c = 0; c < G::columns; ++c)
        sums[m][c] = math::fma(load<typename P::T>(a + m * P::a_row + k * P::a_col), load<typename P::T>(b + column[c] + k), sums[m][c]);
}

// One B along N: sums[m][c] of the `columns` columns from b on (at most `width`).
template <class P, bool ALIGNED, class Sums>
DEVICE void stream_along_n(Sums& sums, const typename P::A* a, const typename P::B* b, i64 columns, i64 depth, int turn) {
  using G = Stream<P>;
  using T = typename P::T;
  using V = vec<T, G::width>;
  constexpr i64 step = i64(P::WAVES_K) * (WAVE / G::across);
  const auto row_of_b = [&](i64 k) {
    const auto* const p = b + k * P::b_row;
    if constexpr (ALIGNED) return aligned<V>(p);
    else return by_lane<V>([&](int l) { return l < columns ? load<T>(p + l) : T(0); });
  };
  const auto add = [&](const V& y, i64 k) {
    UNROLL for (int m = 0; m < P::M; ++m) {
      const T x = load<T>(a + m * P::a_row + k * P::a_col);
      UNROLL for (int l = 0; l < G::width; ++l) sums[m][l] = math::fma(x, lane(y, l), sums[m][l]);
    }
  };
  i64 k = turn;
  V y[G::unroll];
  UNROLL_BY(1) for (; k + (G::unroll - 1) * step < depth; k += G::unroll * step) {
    UNROLL for (int u = 0; u < G::unroll; ++u) y[u] = row_of_b(k + u * step);
    UNROLL for (int u = 0; u < G::unroll; ++u) add(y[u], k + u * step);
  }
  UNROLL_BY(1) for (; k < depth; k += step) y[0] = row_of_b(k), add(y[0], k);
}

// The sums of waves, [WAVES_K][M][BN] in scratch, added in their order and handed to the epilogue. All threads call it.
template <class P, int THREADS, class Epilogue> DEVICE void finish_waves(const Epilogue& epilogue, const Place& at) {
  using T = typename P::T;
  T* const all = static_cast<T*>(scratch);
  barrier();
  if constexpr (P::WAVES_K > 1) {
    UNROLL_BY(1) for (int i = thread(); i < P::M * P::BN; i += THREADS) {
      T sum = all[i];
      UNROLL for (int w = 1; w < P::WAVES_K; ++w) sum = sum + all[w * P::M * P::BN + i];
      all[i] = sum;
    }
    barrier();
  }
  const i64 count = least(P::BN, P::N - at.n);
  UNROLL_BY(1) for (int m = thread() / P::ROW_THREADS; m < P::M; m += THREADS / P::ROW_THREADS)
    epilogue.row(all + m * P::BN, at.batch, m, at.n, count, thread() % P::ROW_THREADS);
}

template <class P, class Epilogue> DEVICE void stream_columns(const typename P::A* a, const typename P::B* b, const Epilogue& epilogue, i64 g) {
  using G = Stream<P>;
  using T = typename P::T;
  const Place at = place_of<P>(g);
  const int wave_n = wave() / P::WAVES_K, wave_k = wave() % P::WAVES_K, side = wave_lane() % G::across;
  const int first = (wave_n * G::across + side) * G::columns;  // this thread's first column of the group's
  const int turn = wave_k * (WAVE / G::across) + wave_lane() / G::across;
  const i64 columns = P::N - at.n - first, depth = at.k_end - at.k;
  T sums[P::M][G::columns];
  UNROLL for (int m = 0; m < P::M; ++m)
    UNROLL for (int c = 0; c < G::columns; ++c) sums[m][c] = T(0);
  if (columns > 0) {
    a += P::a_offset(at.batch) + at.k * P::a_col;
    b += P::b_offset(at.batch) + (at.n + first) * P::b_col + at.k * P::b_row;
    if constexpr (G::along_k) {
      const bool whole = P::b_col % G::width == 0 && ((reinterpret_cast<u64>(a) | reinterpret_cast<u64>(b)) & 15) == 0;
      if (whole) stream_along_k<P, true>(sums, a, b, columns, depth, turn);
      else stream_along_k<P, false>(sums, a, b, columns, depth, turn);
    } else {
      const bool whole = P::b_row % G::width == 0 && columns >= G::width && (reinterpret_cast<u64>(b) & 15) == 0;
      if (whole) stream_along_n<P, true>(sums, a, b, columns, depth, turn);
      else stream_along_n<P, false>(sums, a, b, columns, depth, turn);
    }
  }
  wave_barrier();

  T* const all = static_cast<T*>(scratch);  // [WAVES_K][M][BN]
  UNROLL for (int m = 0; m < P::M; ++m)
    UNROLL for (int c = 0; c < G::columns; ++c) {
      T sum = sums[m][c];
      UNROLL for (int by = WAVE / 2; by >= G::across; by /= 2) sum = sum + shuffle_xor(sum, by);
      if (wave_lane() < G::across) all[(wave_k * P::M + m) * P::BN + first + c] = sum;
    }
  finish_waves<P, G::threads>(epilogue, at);
}

}  // namespace gemm

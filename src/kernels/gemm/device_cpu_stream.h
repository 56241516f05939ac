#pragma once
// Few rows of A and a B that is read once, in place, by long rows: memory bandwidth is the limit.
//
//   group = NC columns of one batch entry, all M rows, over all of K
//     for each 8 rows of B               8 sequential streams, which is what prefetchers follow
//       for each NRV vectors of columns  M x NRV sums from L1, 8 fused multiply-adds each, back to L1
//
// `P` as in device_cpu.h, with b_col == 1 and M small; every element is the same chain in increasing k as there.
#include "kernels/gemm/device_cpu.h"

namespace gemm {

template <class P> struct Streaming {
  using T = typename P::T;
  static constexpr i64 n_tiles = (P::N + P::NC - 1) / P::NC;
  static constexpr i64 scratch_bytes = P::M * P::NC * i64(sizeof(T));
};

// `ROWS` rows of B from k on, added to the sums of V's columns at n.
template <class P, class V, int ROWS, int VECTORS>
DEVICE void add_rows(const typename P::A* RESTRICT a, const typename P::B* RESTRICT b, typename P::T* RESTRICT sums) {
  using T = typename P::T;
  constexpr int lanes = lane_count<V>;
  V acc[P::M][VECTORS];
#pragma GCC unroll 8
  for (int m = 0; m < P::M; ++m)
#pragma GCC unroll 8
    for (int j = 0; j < VECTORS; ++j) acc[m][j] = load<V>(sums + m * P::NC + j * lanes);
#pragma GCC unroll 8
  for (int k = 0; k < ROWS; ++k) {
    V row[VECTORS];
#pragma GCC unroll 8
    for (int j = 0; j < VECTORS; ++j) row[j] = load<V>(b + k * P::b_row + j * lanes);
#pragma GCC unroll 8
    for (int m = 0; m < P::M; ++m) {
      const V x = splat<V>(load<T>(a + m * P::a_row + k * P::a_col));
#pragma GCC unroll 8
      for (int j = 0; j < VECTORS; ++j) acc[m][j] = math::fma(x, row[j], acc[m][j]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < P::M; ++m)
#pragma GCC unroll 8
    for (int j = 0; j < VECTORS; ++j) store(sums + m * P::NC + j * lanes, acc[m][j]);
}

template <class P, class Epilogue>
DEVICE void stream(const typename P::A* a, const typename P::B* b, void* scratch, const Epilogue& epilogue, i64 group) {
  using T = typename P::T;
  using V = vec<T, P::LANES>;
  constexpr int at_once = 8;
  T* const sums = static_cast<T*>(scratch);
  const i64 n_begin = group % Streaming<P>::n_tiles * P::NC, count = least(P::NC, P::N - n_begin);
  const i64 batch = group / Streaming<P>::n_tiles;
  a += P::a_offset(batch);
  b += P::b_offset(batch) + n_begin;
  for (i64 m = 0; m < P::M; ++m)
    for (i64 i = 0; i < count; ++i) sums[m * P::NC + i] = T(0);
  auto add = [&]<int ROWS>(i64 k) {
    const auto* column = a + k * P::a_col;
    const auto* row = b + k * P::b_row;
    i64 n = 0;
    for (; n + P::NRV * P::LANES <= count; n += P::NRV * P::LANES) add_rows<P, V, ROWS, P::NRV>(column, row + n, sums + n);
    for (; n + P::LANES <= count; n += P::LANES) add_rows<P, V, ROWS, 1>(column, row + n, sums + n);
    for (; n < count; ++n) add_rows<P, T, ROWS, 1>(column, row + n, sums + n);
  };
  i64 k = 0;
  for (; k + at_once <= P::K; k += at_once) add.template operator()<at_once>(k);
  for (; k < P::K; ++k) add.template operator()<1>(k);
  for (i64 m = 0; m < P::M; ++m) epilogue.row(sums + m * P::NC, batch, m, n_begin, count);
}

}  // namespace gemm

#pragma once
// GEMM on a CPU: C[m, n] = sum over k of A[m, k] B[k, n], one group per macro tile of C, every finished row handed to an epilogue.
//
//   group = one tile of MC x NC of one batch entry, over all of K
//     for each block of KC along K          A's block (MC x KC) lies in L2, packed by MR rows or read where it stands
//       for each panel of NR columns        B's panel (KC x NR) lies in L1
//         for each MR rows                  MR x NR accumulators in registers
//
// While a packed panel is multiplied by one MR rows after another, the next panel is fetched, a share by each of them: weights that were
// last read a whole pass ago come from the last cache or from memory, and no hardware prefetcher runs that far ahead.
//
// Each element of C is one chain of fused multiply-adds in increasing k, whatever the tile: between blocks of K the partial sums
// are kept in scratch in the arithmetic type. So all parameters give the same bits.
//
// A caller's `P` says everything at compile time:
//   A, B, T            storage types of A and B, arithmetic type (f32 or f64); Panel, the type of packed B (T or B)
//   M, N, K            extents; a_row, a_col, b_row, b_col strides in elements
//   MR, NRV, LANES     register tile: MR rows by NRV vectors of LANES columns (NR = NRV * LANES)
//   MC, NC, KC         cache tile; MC a multiple of MR, NC a multiple of NR
//   pack_a             copy A's block to scratch, or read it in place
//   b_source           BSource
//   a_offset(batch), b_offset(batch), b_panels(batch)   start of a batch entry's A and B, which packed matrix it uses
// and gives an epilogue with  void row(const T* acc, i64 batch, i64 m, i64 n, i64 count) const.
namespace gemm {

// Where the sum of factor `part` of result `i` is, when columns take turns: 8 of one, 8 of the other.
DEVICE constexpr i64 in_turn(i64 i, int part) { return i / 8 * 16 + i % 8 + part * 8; }

enum class BSource {
  panels,  // packed beforehand by pack_panel: [matrix][panel][k][NR], the last panel padded with zeros
  rows,    // read in place: b_col == 1; a ragged last panel is copied first
  task,    // packed by each group for itself
};

constexpr i64 round_up(i64 x, i64 multiple) { return (x + multiple - 1) / multiple * multiple; }
constexpr i64 least(i64 a, i64 b) { return a < b ? a : b; }

template <class P> struct Tiling {
  using T = typename P::T;
  using V = vec<T, P::LANES>;
  static constexpr i64 NR = i64(P::NRV) * P::LANES;
  static constexpr i64 panels = (P::N + NR - 1) / NR;
  static constexpr i64 m_tiles = (P::M + P::MC - 1) / P::MC, n_tiles = (P::N + P::NC - 1) / P::NC;
  static constexpr bool keeps_partial = P::K > P::KC;
  static constexpr i64 mc = least(P::MC, round_up(P::M, P::MR)), nc = least(P::NC, panels * NR), kc = least(P::KC, P::K);
  // Scratch of one thread, in elements of T, in this order.
  static constexpr i64 row_elements = P::MR * NR;
  static constexpr i64 a_elements = P::pack_a ? round_up(mc * kc, 16) : 0;
  static constexpr i64 partial_elements = keeps_partial ? mc * nc : 0;
  static constexpr bool copies_b = P::b_source == BSource::task || (P::b_source == BSource::rows && P::N % NR != 0);
  static constexpr i64 b_elements = copies_b ? kc * NR : 0;
  static_assert(P::MC % P::MR == 0 && P::NC % NR == 0, "a cache tile is a whole number of register tiles");
  // Bytes of the next panel that a step of k fetches; a panel that is read once only needs no help.
  static constexpr bool fetches = P::b_source == BSource::panels && mc > P::MR;
  static constexpr i64 fetched_bytes = (i64(sizeof(typename P::Panel)) * NR * P::MR + mc - 1) / mc;
  static constexpr i64 scratch_bytes = (row_elements + a_elements + partial_elements + b_elements) * i64(sizeof(T));
};

// One panel of packed B: NR columns, all of K. `group` counts panels of all matrices.
template <class P> DEVICE void copy_panel(const typename P::B* RESTRICT b, auto* RESTRICT to, i64 n, i64 k_begin, i64 k_end) {
  using G = Tiling<P>;
  constexpr i64 NR = G::NR;
  const i64 columns = least(NR, P::N - n);
  if (P::b_col == 1 && columns == NR) {
    for (i64 k = k_begin; k < k_end; ++k, to += NR)
      for (int j = 0; j < P::NRV; ++j)
        store(to + j * P::LANES, load<typename G::V>(b + k * P::b_row + n + j * P::LANES));
  } else if (P::b_row == 1) {
    // Columns are contiguous: walk 8 of each at a time, so that every line read is used at once.
    for (i64 k = k_begin; k < k_end; k += 8) {
      const i64 some = least(8, k_end - k);
      for (i64 j = 0; j < NR; ++j)
        for (i64 i = 0; i < some; ++i)
          store(to + (k - k_begin + i) * NR + j, j < columns ? load<typename G::T>(b + k + i + (n + j) * P::b_col) : typename G::T(0));
    }
  } else {
    for (i64 k = k_begin; k < k_end; ++k, to += NR)
      for (i64 j = 0; j < NR; ++j)
        store(to + j, j < columns ? load<typename G::T>(b + k * P::b_row + (n + j) * P::b_col) : typename G::T(0));
  }
}
template <class P> DEVICE void pack_panel(const typename P::B* b, typename P::Panel* panels, i64 matrix, i64 panel) {
  using G = Tiling<P>;
  copy_panel<P>(b, panels + (matrix * G::panels + panel) * G::NR * P::K, panel * G::NR, 0, P::K);
}

// `rows` rows of A as [k][MR].
template <class P> DEVICE void copy_a(const typename P::A* RESTRICT a, typename P::T* RESTRICT to, i64 rows, i64 kc) {
  using T = typename P::T;
  if (P::a_col == 1 && rows == P::MR) {
    i64 k = 0;
    for (; k + 8 <= kc; k += 8)
      for (int i = 0; i < P::MR; ++i) {
        const vec<T, 8> x = load<vec<T, 8>>(a + i * P::a_row + k);
        for (int l = 0; l < 8; ++l) to[(k + l) * P::MR + i] = x[l];
      }
    for (; k < kc; ++k)
      for (int i = 0; i < P::MR; ++i) to[k * P::MR + i] = load<T>(a + i * P::a_row + k);
  } else {
    for (i64 k = 0; k < kc; ++k)
      for (i64 i = 0; i < rows; ++i) to[k * P::MR + i] = load<T>(a + i * P::a_row + k * P::a_col);
  }
}

// ROWS x NR accumulators over kc steps. `from` null: start at zero. B advances by b_step elements a step. `ahead`: the address of what
// is to be fetched on the way; it may lie behind the end.
template <class P, int ROWS, bool PACKED_A, class BT>
DEVICE void registers(const auto* RESTRICT a, const BT* RESTRICT b, i64 b_step, i64 kc, const typename P::T* from, typename P::T* to,
                      [[maybe_unused]] u64 ahead) {
  using G = Tiling<P>;
  using V = typename G::V;
  using T = typename P::T;
  V acc[ROWS][P::NRV];
#pragma GCC unroll 32
  for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < P::NRV; ++j) acc[i][j] = from ? load<V>(from + i * G::NR + j * P::LANES) : V{};
#pragma GCC unroll 2
  for (i64 k = 0; k < kc; ++k, b += b_step) {
    if constexpr (G::fetches)
      for (i64 byte = 0; byte < G::fetched_bytes; byte += 64)
        __builtin_prefetch(reinterpret_cast<const void*>(ahead + u64(k * G::fetched_bytes + byte)), 0, 3);
    V column[P::NRV];
#pragma GCC unroll 8
    for (int j = 0; j < P::NRV; ++j) column[j] = load<V>(b + j * P::LANES);
#pragma GCC unroll 32
    for (int i = 0; i < ROWS; ++i) {
      const V x = splat<V>(load<T>(PACKED_A ? a + k * P::MR + i : a + i * P::a_row + k * P::a_col));
#pragma GCC unroll 8
      for (int j = 0; j < P::NRV; ++j) acc[i][j] = math::fma(x, column[j], acc[i][j]);
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < P::NRV; ++j) store(to + i * G::NR + j * P::LANES, acc[i][j]);
}

// The tile `group` = (batch * n_tiles + n_tile) * m_tiles + m_tile.
template <class P, class Epilogue>
DEVICE void tile(const typename P::A* a, const typename P::B* b, const typename P::Panel* panels, void* scratch, const Epilogue& epilogue,
                 i64 group) {
  using G = Tiling<P>;
  using T = typename P::T;
  constexpr i64 NR = G::NR;
  constexpr int tail_rows = int(P::M % P::MR);
  T* row_buffer = static_cast<T*>(scratch);
  T* a_block = row_buffer + G::row_elements;
  T* partial = a_block + G::a_elements;
  T* b_block = partial + G::partial_elements;

  const i64 m_begin = group % G::m_tiles * P::MC, m_end = least(P::M, m_begin + P::MC);
  const i64 n_begin = group / G::m_tiles % G::n_tiles * P::NC, n_end = least(P::N, n_begin + P::NC);
  const i64 batch = group / (G::m_tiles * G::n_tiles);
  a += P::a_offset(batch);
  if constexpr (P::b_source == BSource::panels) panels += P::b_panels(batch) * G::panels * NR * P::K;
  else b += P::b_offset(batch);

  for (i64 k = 0; k < P::K || k == 0; k += P::KC) {  // K = 0: once, with nothing to add
    const i64 kc = least(P::KC, P::K - k);
    const bool first = k == 0, last = k + P::KC >= P::K;
    if constexpr (P::pack_a)
      for (i64 m = m_begin; m < m_end; m += P::MR)
        copy_a<P>(a + m * P::a_row + k * P::a_col, a_block + (m - m_begin) * G::kc, least(P::MR, P::M - m), kc);
    for (i64 n = n_begin; n < n_end; n += NR) {
      const i64 columns = least(NR, P::N - n);
      const bool copied = P::b_source == BSource::task || (G::copies_b && columns < NR);
      if (copied) copy_panel<P>(b, b_block, n, k, k + kc);
      for (i64 m = m_begin; m < m_end; m += P::MR) {
        T* at = partial + (m - m_begin) * G::nc + (n - n_begin) * P::MR;
        const T* from = first ? nullptr : at;
        T* to = last ? row_buffer : at;
        u64 ahead = 0;
        if constexpr (G::fetches)
          ahead = reinterpret_cast<u64>(panels + n * P::K + k * NR) + u64(NR * P::K) * sizeof(typename P::Panel) +
                  u64((m - m_begin) / P::MR * kc * G::fetched_bytes);
        auto run = [&]<int ROWS>() {
          auto with_b = [&](const auto* column, i64 step) {
            if constexpr (P::pack_a) registers<P, ROWS, true>(a_block + (m - m_begin) * G::kc, column, step, kc, from, to, ahead);
            else registers<P, ROWS, false>(a + m * P::a_row + k * P::a_col, column, step, kc, from, to, ahead);
          };
          if constexpr (P::b_source == BSource::panels) with_b(panels + n * P::K + k * NR, NR);
          else if constexpr (P::b_source == BSource::task) with_b(b_block, NR);
          else if (!G::copies_b || !copied) with_b(b + k * P::b_row + n, P::b_row);
          else with_b(b_block, NR);
          if (last)
            for (int i = 0; i < ROWS; ++i) epilogue.row(row_buffer + i * NR, batch, m + i, n, columns);
        };
        if (tail_rows == 0 || m + P::MR <= P::M) run.template operator()<P::MR>();
        else run.template operator()<tail_rows == 0 ? 1 : tail_rows>();
      }
    }
  }
}

}  // namespace gemm

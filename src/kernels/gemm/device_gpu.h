#pragma once
// GEMM on a GPU: what its main loops share, and the one for any type and any view (no tensor cores).
//
//   group = BM x BN of C of one batch entry, over all of K or over one of SPLIT parts of it
//   wave  = (BM / WAVES_M) x (BN / WAVES_N) of that
//
// A caller's `P` says everything at compile time:
//   A, B, T                         storage types of A and B, type of sums
//   M, N, K, BATCHES                extents; a_row, a_col, b_row, b_col strides in elements
//   BM, BN, BK, WAVES_M, WAVES_N    block and waves; STAGES of the copies (device_gpu_mma.h)
//   SPLIT, SPLIT_K                  parts of K, elements of each (a multiple of BK)
//   ROW_THREADS                     neighbouring threads that share a row of the epilogue
//   a_offset(batch), b_offset(batch)
// and gives an epilogue with  void row(const T* sums, i64 batch, i64 m, i64 n, i64 count, int place) const: `count` finished
// sums of row m from column n on, dealt to ROW_THREADS threads of which this one is number `place`.
namespace gemm {

DEVICE constexpr i64 least(i64 a, i64 b) { return a < b ? a : b; }
DEVICE constexpr i64 greatest(i64 a, i64 b) { return a > b ? a : b; }
DEVICE constexpr i64 parts(i64 x, i64 size) { return (x + size - 1) / size; }
// Where the sum of factor `part` of result `i` is, when columns take turns: 8 of one, 8 of the other.
DEVICE constexpr i64 in_turn(i64 i, int part) { return i / 8 * 16 + i % 8 + part * 8; }

// V at p, which is aligned to it (16 bytes at most).
template <class V, class S> DEVICE V aligned(const S* p) {
  constexpr int bytes = int(sizeof(S)) * lane_count<V>, access = bytes < 16 ? bytes : 16;
  using Stored = vec<S, lane_count<V>>;
  if constexpr (access < 4) {
    return load<V>(p);
  } else {
    lanes::Pieces<access, bytes / access> pieces;
    UNROLL for (int k = 0; k < bytes / access; ++k) pieces.piece[k] = load_bytes<access>(reinterpret_cast<const u8*>(p) + k * access);
    return convert<lane_t<V>>(__builtin_bit_cast(Stored, pieces));
  }
}
template <class V> DEVICE void store_aligned(lane_t<V>* p, V x) {
  constexpr int access = sizeof(V) < 16 ? sizeof(V) : 16;
  using Pieces = lanes::Pieces<access, sizeof(V) / access>;
  const auto pieces = __builtin_bit_cast(Pieces, x);
  UNROLL for (int k = 0; k < int(sizeof(V)) / access; ++k) store_bytes<access>(reinterpret_cast<u8*>(p) + k * access, pieces.piece[k]);
}

// Where a group works. Tiles go in bands of 8 rows of tiles, column by column: groups that run together share A and B in L2.
struct Place {
  i64 batch, m, n, k, k_end;
  int split;
};
template <class P> struct Grid {
  static constexpr i64 m_tiles = parts(P::M, P::BM), n_tiles = parts(P::N, P::BN), band = 8;
  static constexpr i64 groups = m_tiles * n_tiles * P::BATCHES * P::SPLIT;
};
template <class P> DEVICE Place place_of(i64 g) {
  using G = Grid<P>;
  constexpr i64 tiles = G::m_tiles * G::n_tiles;
  Place at;
  const i64 tile = g % tiles, rest = g / tiles;
  const i64 first = tile / (G::band * G::n_tiles) * G::band, within = tile - first * G::n_tiles, rows = least(G::band, G::m_tiles - first);
  at.m = (first + within % rows) * P::BM;
  at.n = within / rows * P::BN;
  at.batch = rest % P::BATCHES;
  at.split = int(rest / P::BATCHES);
  at.k = at.split * P::SPLIT_K;
  at.k_end = least(P::K, at.k + P::SPLIT_K);
  return at;
}

// ROWS x COLUMNS sums of a wave, row-major with PITCH in scratch, to the epilogue; (m, n) is the first. All lanes call it.
template <class P, int ROWS, int COLUMNS, int PITCH, class Epilogue>
DEVICE void finish_rows(const typename P::T* sums, const Epilogue& epilogue, i64 batch, i64 m, i64 n) {
  constexpr int at_once = WAVE / P::ROW_THREADS;
  const i64 count = least(COLUMNS, P::N - n);
  UNROLL_BY(1) for (int r = wave_lane() / P::ROW_THREADS; r < ROWS; r += at_once)
    if (m + r < P::M && count > 0) epilogue.row(sums + r * PITCH, batch, m + r, n, count, wave_lane() % P::ROW_THREADS);
}

// What stands in for the epilogue when K is split: sums of one part, dense, as [split][batch][m][n].
template <class P> struct Partial {
  typename P::T* to;
  DEVICE Partial(typename P::T* workspace, i64 g) : to(workspace + i64(place_of<P>(g).split) * P::BATCHES * P::M * P::N) {}
  DEVICE void row(const typename P::T* sums, i64 batch, i64 m, i64 n, i64 count, int place) const {
    typename P::T* const row = to + (batch * P::M + m) * P::N + n;
    for (i64 i = place; i < count; i += P::ROW_THREADS) row[i] = sums[i];
  }
};
// The sum of all parts in order, for `W` elements.
template <class P, int W> DEVICE vec<typename P::T, W> all_parts(const typename P::T* p) {
  using V = vec<typename P::T, W>;
  constexpr i64 part = P::BATCHES * P::M * P::N;
  V total = load<V>(p);
  UNROLL_BY(4) for (int s = 1; s < P::SPLIT; ++s) total = total + load<V>(p + s * part);
  return total;
}
// Every row of C in pieces of SPAN columns, a piece for each wave.
template <class P, int THREADS, int SPAN, class Epilogue> DEVICE void sum_parts(const typename P::T* workspace, const Epilogue& epilogue, i64 g) {
  constexpr i64 pieces = parts(P::N, SPAN);
  const i64 piece = g * (THREADS / WAVE) + wave(), row = piece / pieces, n = piece % pieces * SPAN;
  if (row >= P::BATCHES * P::M) return;
  epilogue.row(workspace + row * P::N + n, row / P::M, row % P::M, n, least(SPAN, P::N - n), wave_lane());
}

// ---- scalar main loop: one chain of fused multiply-adds in increasing k ---------------------------------------------------------
template <class P> struct Scalar {
  using T = typename P::T;
  static constexpr int threads = P::WAVES_M * P::WAVES_N * WAVE;
  static constexpr int wave_m = P::BM / P::WAVES_M, wave_n = P::BN / P::WAVES_N;
  static constexpr int tm = wave_m / 4, tn = wave_n / 8;  // of a thread; a wave is 4 x 8 threads
  static constexpr int access = 16 / int(sizeof(T));      // elements of 16 bytes
  static constexpr int vm = int(least(tm, access)), vn = int(least(tn, access));
  static constexpr int pitch_a = P::BM + access, pitch_b = P::BN + access;
  static constexpr int stage = P::BK * (pitch_a + pitch_b);
  static constexpr int pitch = wave_n + access, rows = 4 * vm;  // a wave's sums on their way to the epilogue
  static constexpr i64 scratch_bytes = greatest(2 * stage, P::WAVES_M * P::WAVES_N * rows * pitch) * i64(sizeof(T));
};

// ROWS x BK of an operand (row r, depth k at r * ROW + k * DEPTH), `access` elements at a time through registers to [k][row].
template <class T, class S, int ROWS, int BK, int THREADS, i64 ROW, i64 DEPTH, int PITCH> struct Panel {
  static constexpr int access = 16 / int(sizeof(T)), count = ROWS * BK / access, each = (count + THREADS - 1) / THREADS;
  static constexpr bool along_rows = ROW == 1 && DEPTH != 1;
  using V = vec<T, access>;
  V held[each];

  DEVICE static int row_of(int i) { return along_rows ? i % (ROWS / access) * access : i / (BK / access); }
  DEVICE static int depth_of(int i) { return along_rows ? i / (ROWS / access) : i % (BK / access) * access; }
  // `rows` and `depth` are what is left of the matrix from here on; the rest is zeros.
  DEVICE void fetch(const S* from, i64 rows, i64 depth) {
    UNROLL for (int e = 0; e < each; ++e) {
      const int i = thread() + e * THREADS, r = row_of(i), k = depth_of(i);
      const S* const p = from + r * ROW + k * DEPTH;
      if (count % THREADS != 0 && i >= count) continue;
      if constexpr (along_rows) {
        if (k < depth && r + access <= rows) held[e] = load<V>(p);
        else held[e] = by_lane<V>([&](int l) { return k < depth && r + l < rows ? load<T>(p + l * ROW) : T(0); });
      } else {
        if (DEPTH == 1 && r < rows && k + access <= depth) held[e] = load<V>(p);
        else held[e] = by_lane<V>([&](int l) { return r < rows && k + l < depth ? load<T>(p + l * DEPTH) : T(0); });
      }
    }
  }
  DEVICE void put(T* to) const {
    UNROLL for (int e = 0; e < each; ++e) {
      const int i = thread() + e * THREADS, r = row_of(i), k = depth_of(i);
      if (count % THREADS != 0 && i >= count) continue;
      if constexpr (along_rows) store_aligned(to + k * PITCH + r, held[e]);
      else UNROLL for (int l = 0; l < access; ++l) to[(k + l) * PITCH + r] = held[e][l];
    }
  }
};

template <class P, class Epilogue> DEVICE void scalar_tile(const typename P::A* a, const typename P::B* b, const Epilogue& epilogue, i64 g) {
  using G = Scalar<P>;
  using T = typename P::T;
  const Place at = place_of<P>(g);
  T* const stages = static_cast<T*>(scratch);
  const int wave_m = wave() / P::WAVES_N * G::wave_m, wave_n = wave() % P::WAVES_N * G::wave_n;
  const int row = wave_lane() / 8 * G::vm, column = wave_lane() % 8 * G::vn;
  T sums[G::tm][G::tn];
  UNROLL for (int i = 0; i < G::tm; ++i)
    UNROLL for (int j = 0; j < G::tn; ++j) sums[i][j] = T(0);

  if constexpr (P::K > 0) {
    a += P::a_offset(at.batch) + at.m * P::a_row + at.k * P::a_col;
    b += P::b_offset(at.batch) + at.n * P::b_col + at.k * P::b_row;
    Panel<T, typename P::A, P::BM, P::BK, G::threads, P::a_row, P::a_col, G::pitch_a> panel_a;
    Panel<T, typename P::B, P::BN, P::BK, G::threads, P::b_col, P::b_row, G::pitch_b> panel_b;
    const auto fetch = [&](i64 k) {
      panel_a.fetch(a + k * P::a_col, P::M - at.m, at.k_end - at.k - k);
      panel_b.fetch(b + k * P::b_row, P::N - at.n, at.k_end - at.k - k);
    };
    const auto put = [&](int stage) {
      panel_a.put(stages + stage * G::stage);
      panel_b.put(stages + stage * G::stage + P::BK * G::pitch_a);
    };
    fetch(0);
    put(0);
    barrier();
    int stage = 0;
    UNROLL_BY(1) for (i64 k = at.k; k < at.k_end; k += P::BK, stage ^= 1) {
      const bool more = k + P::BK < at.k_end;
      if (more) fetch(k + P::BK - at.k);
      const T* const from_a = stages + stage * G::stage + wave_m + row;
      const T* const from_b = stages + stage * G::stage + P::BK * G::pitch_a + wave_n + column;
      UNROLL for (int d = 0; d < P::BK; ++d) {
        vec<T, G::vm> x[G::tm / G::vm];
        vec<T, G::vn> y[G::tn / G::vn];
        UNROLL for (int i = 0; i < G::tm / G::vm; ++i) x[i] = aligned<vec<T, G::vm>>(from_a + d * G::pitch_a + i * 4 * G::vm);
        UNROLL for (int j = 0; j < G::tn / G::vn; ++j) y[j] = aligned<vec<T, G::vn>>(from_b + d * G::pitch_b + j * 8 * G::vn);
        UNROLL for (int i = 0; i < G::tm; ++i)
          UNROLL for (int j = 0; j < G::tn; ++j)
            sums[i][j] = math::fma(lane(x[i / G::vm], i % G::vm), lane(y[j / G::vn], j % G::vn), sums[i][j]);
      }
      if (more) put(stage ^ 1);
      barrier();
    }
  }

  T* const staged = stages + wave() * G::rows * G::pitch;
  UNROLL for (int i = 0; i < G::tm / G::vm; ++i) {
    UNROLL for (int r = 0; r < G::vm; ++r)
      UNROLL for (int j = 0; j < G::tn / G::vn; ++j)
        store_aligned(staged + (row + r) * G::pitch + j * 8 * G::vn + column,
                      by_lane<vec<T, G::vn>>([&](int l) { return sums[i * G::vm + r][j * G::vn + l]; }));
    wave_barrier();
    finish_rows<P, G::rows, G::wave_n, G::pitch>(staged, epilogue, at.batch, at.m + wave_m + i * G::rows, at.n + wave_n);
    wave_barrier();
  }
}

}  // namespace gemm

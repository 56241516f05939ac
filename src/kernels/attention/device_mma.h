#pragma once
// Attention forward by matrix instructions (mma_16x8x16) on f16 or bf16 rows in scratch.
//
//   q [rows][DEPTH], keys [block][DEPTH], values [block][WIDTH]   rows lie 16 bytes further apart than they are long: eight of them
//                                                                 at one column then meet all banks once
//   Tile   16 x FRAGMENTS query rows of one wave and its KEYS keys of each block
//
// A lane has rows lane / 4 + 8 half of each fragment and columns 8 n + lane % 4 * 2 + {0, 1}; accumulators of two neighbouring
// column blocks are, packed, the operand of the next product, so weights never leave their lane. Softmax is online in powers of
// two: weights are 2^(score scale - base), where a row's base follows its largest score only when that has grown by more than 8;
// what was summed before is then scaled down. The total is a product with ones, so that it counts the weights as rounded.
// A row's bits depend on the block of keys and on how it is dealt to waves, not on rows beside it.
namespace attention {

DEVICE u32 pack(f32 low, f32 high, f16) { return pack_f16(low, high); }
DEVICE u32 pack(f32 low, f32 high, bf16) { return pack_bf16(low, high); }
DEVICE vec<f32, 2> pair(f32 low, f32 high) {
  vec<f32, 2> r;
  r[0] = low, r[1] = high;
  return r;
}
template <int N> constexpr int row_stride = N + 8;

// Rows of ELEMENTS (CHUNKS x 8 with zeros behind them) to scratch: `from(r)` is where row r stands, or would; rows from `count` on
// become zeros. `aligned`: every row stands on 16 bytes. To be committed and waited for like any copy_async.
// `stride`: of neighbouring rows where that is one number, else 0.
template <int THREADS, int ROWS, int ELEMENTS, int CHUNKS, int STRIDE, class T, class F> DEVICE void copy_rows(T* to, int count, bool aligned, F from) {
  constexpr int chunks = ROWS * CHUNKS;
  if (aligned) {
    if constexpr (STRIDE != 0 && THREADS % CHUNKS == 0 && chunks % THREADS == 0) {
      constexpr int apart = THREADS / CHUNKS;
      const int r = thread() / CHUNKS, c = thread() % CHUNKS * 8;
      T* const place = to + r * row_stride<CHUNKS * 8> + c;
      const T* const row = from(r) + c;
      UNROLL for (int k = 0; k < ROWS / apart; ++k)
        copy_async<16>(place + k * (apart * row_stride<CHUNKS * 8>), row + k * (i64(apart) * STRIDE), r < count - k * apart && c < ELEMENTS ? 16 : 0);
      return;
    }
    UNROLL for (int k = 0; k < (chunks + THREADS - 1) / THREADS; ++k) {
      const int x = thread() + k * THREADS, r = x / CHUNKS, c = x % CHUNKS * 8;
      if (chunks % THREADS == 0 || r < ROWS) copy_async<16>(to + r * row_stride<CHUNKS * 8> + c, from(r) + c, r < count && c < ELEMENTS ? 16 : 0);
    }
    return;
  }
  UNROLL_BY(1) for (int x = thread(); x < chunks; x += THREADS) {
    const int r = x / CHUNKS, c = x % CHUNKS * 8;
    const T* const row = from(r) + c;
    Bytes<16> bytes;
    UNROLL for (int w = 0; w < 4; ++w) {
      const u32 low = r < count && c + 2 * w < ELEMENTS ? row[2 * w].bits : 0, high = r < count && c + 2 * w + 1 < ELEMENTS ? row[2 * w + 1].bits : 0;
      bytes.word[w] = low | high << 16;
    }
    store_bytes<16>(to + r * row_stride<CHUNKS * 8> + c, bytes);
  }
}

template <class T> DEVICE void clear_rows(T* p, int count, int lane, int lanes) {
  for (int i = lane; i < count; i += lanes) p[i].bits = 0;
}

template <class T, int FRAGMENTS, int KEYS, int DEPTH, int WIDTH, bool Q_STAYS> struct Tile {
  static constexpr int q_stride = row_stride<DEPTH>, value_stride = row_stride<WIDTH>;
  f32 sum[FRAGMENTS][WIDTH / 8][4], total[4], base[FRAGMENTS][2], score[FRAGMENTS][KEYS / 8][4];
  u32 q[Q_STAYS ? FRAGMENTS : 1][Q_STAYS ? DEPTH / 16 : 1][4];

  static DEVICE int row(int m, int half) { return m * 16 + half * 8 + wave_lane() / 4; }
  static DEVICE int column(int n) { return n * 8 + wave_lane() % 4 * 2; }
  // All columns of a product with ones are one number: two fragments share an accumulator, four columns each.
  static DEVICE bool has_total(int m) { return FRAGMENTS == 1 || wave_lane() % 4 / 2 == m; }

  DEVICE void clear() {
    UNROLL for (int m = 0; m < FRAGMENTS; ++m) {
      UNROLL for (int n = 0; n < WIDTH / 8; ++n)
        UNROLL for (int e = 0; e < 4; ++e) sum[m][n][e] = 0;
      base[m][0] = base[m][1] = -__builtin_inff();
    }
    UNROLL for (int e = 0; e < 4; ++e) total[e] = 0;
  }

  static DEVICE void load_q(u32 (&a)[4], const T* rows, int m, int d) {
    load_matrix(a, rows + (m * 16 + wave_lane() % 16) * q_stride + d * 16 + wave_lane() / 16 * 8);
  }
  DEVICE void keep_q(const T* rows) {
    if constexpr (Q_STAYS)
      UNROLL for (int m = 0; m < FRAGMENTS; ++m)
        UNROLL for (int d = 0; d < DEPTH / 16; ++d) load_q(q[m][d], rows, m, d);
  }

  // score = q keys
  DEVICE void multiply(const T* rows, const T* keys) {
    UNROLL for (int m = 0; m < FRAGMENTS; ++m)
      UNROLL for (int n = 0; n < KEYS / 8; ++n)
        UNROLL for (int e = 0; e < 4; ++e) score[m][n][e] = 0;
    keys += (wave_lane() / 16 * 8 + wave_lane() % 8) * q_stride + wave_lane() / 8 % 2 * 8;
    UNROLL for (int d = 0; d < DEPTH / 16; ++d) {
      u32 a[FRAGMENTS][4];
      if constexpr (!Q_STAYS)
        UNROLL for (int m = 0; m < FRAGMENTS; ++m) load_q(a[m], rows, m, d);
      UNROLL for (int n = 0; n < KEYS / 16; ++n) {
        u32 both[4];
        load_matrix(both, keys + n * 16 * q_stride + d * 16);
        const u32 first[2] = {both[0], both[1]}, second[2] = {both[2], both[3]};
        UNROLL for (int m = 0; m < FRAGMENTS; ++m) {
          if constexpr (Q_STAYS) {
            mma_16x8x16(score[m][2 * n], q[m][d], first, T{});
            mma_16x8x16(score[m][2 * n + 1], q[m][d], second, T{});
          } else {
            mma_16x8x16(score[m][2 * n], a[m], first, T{});
            mma_16x8x16(score[m][2 * n + 1], a[m], second, T{});
          }
        }
      }
    }
  }

  // Scores become what f makes of them.
  template <class F> DEVICE void each_score(F f) {
    UNROLL for (int m = 0; m < FRAGMENTS; ++m)
      UNROLL for (int n = 0; n < KEYS / 8; ++n)
        UNROLL for (int e = 0; e < 4; ++e) score[m][n][e] = f(score[m][n][e]);
  }

  // Hides the keys outside [low, high) of a row, counted from the wave's first.
  DEVICE void hide(int m, int half, int low, int high) {
    UNROLL for (int n = 0; n < KEYS / 8; ++n)
      UNROLL for (int e = 0; e < 2; ++e)
        if (column(n) + e < low || column(n) + e >= high) score[m][n][half * 2 + e] = -__builtin_inff();
  }

  // Scores become weights 2^(score scale - base).
  DEVICE void weigh(f32 scale) {
    f32 down[FRAGMENTS][2];
    bool grown = false;
    UNROLL for (int m = 0; m < FRAGMENTS; ++m)
      UNROLL for (int half = 0; half < 2; ++half) {
        f32 most = score[m][0][half * 2];
        UNROLL for (int n = 0; n < KEYS / 8; ++n)
          UNROLL for (int e = 0; e < 2; ++e) most = __builtin_fmaxf(most, score[m][n][half * 2 + e]);
        most = __builtin_fmaxf(most, shuffle_xor(most, 1));
        most = __builtin_fmaxf(most, shuffle_xor(most, 2)) * scale;
        const f32 before = base[m][half];
        const bool higher = most > before + 8.f;  // from -inf too
        down[m][half] = higher ? scalar::exp2_fast(before - most) : 1.f;
        base[m][half] = higher ? most : before;
        grown = grown || higher;
      }
    if (wave_any(grown)) {
      UNROLL for (int e = 0; e < 4; ++e) total[e] *= has_total(0) ? down[0][e / 2] : down[FRAGMENTS - 1][e / 2];
      UNROLL for (int m = 0; m < FRAGMENTS; ++m)
        UNROLL for (int e = 0; e < 4; ++e)
          UNROLL for (int n = 0; n < WIDTH / 8; ++n) sum[m][n][e] *= down[m][e / 2];
    }
    UNROLL for (int m = 0; m < FRAGMENTS; ++m)
      UNROLL for (int half = 0; half < 2; ++half) {
        // Nothing seen yet: -inf - -inf would be NaN, where only a NaN may be.
        const f32 from = base[m][half] == -__builtin_inff() ? 0.f : -base[m][half];
        UNROLL for (int n = 0; n < KEYS / 8; ++n)
          UNROLL for (int e = 0; e < 2; ++e) score[m][n][half * 2 + e] = scalar::exp2_fast(scalar::fma(score[m][n][half * 2 + e], scale, from));
      }
  }

  // sum += weights values, total += weights
  DEVICE void add(const T* values) {
    values += wave_lane() % 16 * value_stride + wave_lane() / 16 * 8;
    const u32 one = pack(1.f, 1.f, T{});
    UNROLL for (int k = 0; k < KEYS / 16; ++k) {
      u32 a[FRAGMENTS][4];
      UNROLL for (int m = 0; m < FRAGMENTS; ++m) {
        UNROLL for (int x = 0; x < 4; ++x) a[m][x] = pack(score[m][2 * k + x / 2][x % 2 * 2], score[m][2 * k + x / 2][x % 2 * 2 + 1], T{});
        const u32 mine = FRAGMENTS == 1 || wave_lane() / 16 == m ? one : 0;
        const u32 ones[2] = {mine, mine};
        mma_16x8x16(total, a[m], ones, T{});
      }
      UNROLL for (int w = 0; w < WIDTH / 16; ++w) {
        u32 both[4];
        load_matrix_transposed(both, values + k * 16 * value_stride + w * 16);
        const u32 first[2] = {both[0], both[1]}, second[2] = {both[2], both[3]};
        UNROLL for (int m = 0; m < FRAGMENTS; ++m) {
          mma_16x8x16(sum[m][2 * w], a[m], first, T{});
          mma_16x8x16(sum[m][2 * w + 1], a[m], second, T{});
        }
      }
    }
  }

  // Of waves that dealt the keys of the same rows among them: base and total of each to places[WAVES][ROWS][2] ...
  template <int ROWS> DEVICE void tell(f32* places, int part, int first_row) const {
    UNROLL for (int m = 0; m < FRAGMENTS; ++m)
      UNROLL for (int half = 0; half < 2; ++half) {
        f32* const place = places + (part * ROWS + first_row + row(m, half)) * 2;
        if (wave_lane() % 4 == 2 * m) place[0] = base[m][half], place[1] = total[half * 2];
      }
  }
  // ... and once all have, each takes the base and total of all, and scales its sums to them.
  template <int ROWS, int WAVES> DEVICE void agree(const f32* places, int first_row) {
    UNROLL for (int m = 0; m < FRAGMENTS; ++m)
      UNROLL for (int half = 0; half < 2; ++half) {
        const f32* const place = places + (first_row + row(m, half)) * 2;
        f32 most = place[0];
        UNROLL for (int w = 1; w < WAVES; ++w) most = __builtin_fmaxf(most, place[w * ROWS * 2]);
        f32 all = 0;
        UNROLL for (int w = 0; w < WAVES; ++w) {
          const f32 down = place[w * ROWS * 2] == most ? 1.f : scalar::exp2_fast(place[w * ROWS * 2] - most);
          all = scalar::fma(place[w * ROWS * 2 + 1], down, all);
        }
        const f32 down = base[m][half] == most ? 1.f : scalar::exp2_fast(base[m][half] - most);
        base[m][half] = most;
        if (has_total(m)) total[half * 2] = all;
        UNROLL for (int n = 0; n < WIDTH / 8; ++n)
          UNROLL for (int e = 0; e < 2; ++e) sum[m][n][half * 2 + e] *= down;
      }
  }

  // Sums to f32 rows (`more`: added to what is there).
  DEVICE void put(f32* results, int stride, bool more) const {
    UNROLL for (int m = 0; m < FRAGMENTS; ++m)
      UNROLL for (int half = 0; half < 2; ++half)
        UNROLL for (int n = 0; n < WIDTH / 8; ++n) {
          f32* const place = results + row(m, half) * stride + column(n);
          vec<f32, 2> x = pair(sum[m][n][half * 2], sum[m][n][half * 2 + 1]);
          if (more) x = load<vec<f32, 2>>(place) + x;
          ::store(place, x);
        }
  }
  DEVICE void put_rows(f32* greatest, f32* totals) const {
    UNROLL for (int m = 0; m < FRAGMENTS; ++m)
      UNROLL for (int half = 0; half < 2; ++half)
        if (wave_lane() % 4 == 2 * m) greatest[row(m, half)] = base[m][half], totals[row(m, half)] = total[half * 2];
  }
};

}  // namespace attention

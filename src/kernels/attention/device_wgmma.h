#pragma once
// Attention forward by warpgroup products (wgmma) on f16 or bf16 rows that boxes of views bring to scratch. Above device_gpu.h and
// device_mma.h.
//
//   q [DEPTH / 64][ROWS][64]        pieces of 128 bytes a row, swizzled as the view says; a warpgroup has 64 of the rows
//   keys [DEPTH / 64][KEYS][64]     a block of keys, likewise
//   values [WIDTH / piece][KEYS][piece]   a block of values; a piece is SWIZZLE bytes of a row
//
// One warpgroup loads, the others multiply: each has 64 query rows, its sums and its scores in registers. A thread has rows
// g + 8 half of its wave's sixteen (g = lane / 4) and columns 8 n + lane % 4 * 2 + {0, 1}: element 4 n + 2 half + e of an accumulator.
// Scores, packed to 16 bits, are the operand of the product with the values as they stand. Softmax is that of device_mma.h: powers
// of two, a base that follows only when a row's largest score has grown by more than 8.
namespace attention {

// Where a ring of STAGES buffers stands; a barrier's phase turns when the ring comes round.
template <int STAGES> struct Ring {
  int stage = 0;
  u32 parity = 0;
  DEVICE void next() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
};

// As good as scores of 16-bit operands are.
DEVICE f32 soft_cap_fast(f32 score, f32 by, f32 cap) { return scalar::fma(scalar::rcp_fast(scalar::exp2_fast(score * by) + 1.f), -2.f * cap, cap); }

template <class T, int ROWS, int KEYS, int DEPTH, int WIDTH, int SWIZZLE> struct Rows64 {
  f32 sum[WIDTH / 2], score[KEYS / 2], base[2], total[2], down[2];
  u32 weight[KEYS / 16][4];

  static DEVICE int row(int half) { return wave() % 4 * 16 + half * 8 + wave_lane() / 4; }  // of the warpgroup's
  static DEVICE int column(int n) { return n * 8 + wave_lane() % 4 * 2; }

  DEVICE void clear() {
    UNROLL for (int x = 0; x < WIDTH / 2; ++x) sum[x] = 0;
    UNROLL for (int half = 0; half < 2; ++half) base[half] = -__builtin_inff(), total[half] = 0, down[half] = 1;
  }

  // score = q keys, to be committed and waited for; `q`: the warpgroup's first row.
  DEVICE void multiply(const u8* q, const u8* keys) {
    const u64 a = matrix_view(q, 16, 1024, 128), b = matrix_view(keys, 16, 1024, 128);
    UNROLL for (int d = 0; d < DEPTH / 16; ++d)
      wgmma<KEYS>(score, matrix_view_step(a, d / 4 * (ROWS * 128) + d % 4 * 32), matrix_view_step(b, d / 4 * (KEYS * 128) + d % 4 * 32), d != 0, T{});
  }
  // sum += weights values, likewise.
  DEVICE void add(const u8* values) {
    const u64 b = matrix_view(values, KEYS * SWIZZLE, 8 * SWIZZLE, SWIZZLE);
    UNROLL for (int k = 0; k < KEYS / 16; ++k) wgmma<WIDTH, true>(sum, weight[k], matrix_view_step(b, k * 16 * SWIZZLE), true, T{});
  }

  // Rows of values from `count` on become zeros: weights of 0 times what stands there might be NaN. By all CONSUMERS; before a fence
  // and a barrier of theirs.
  template <int CONSUMERS> static DEVICE void clear_values(u8* values, int count) {
    for (int r = (count < 0 ? 0 : count) + (thread() - 128) / 8; r < KEYS; r += CONSUMERS * 16)
      for (int x = thread() % 8; x < WIDTH / 8; x += 8) store_bytes<16>(values + x * 16 / SWIZZLE * (KEYS * SWIZZLE) + r * SWIZZLE + x * 16 % SWIZZLE, Bytes<16>{});
  }

  // Scores become what f makes of them.
  template <class F> DEVICE void each_score(F f) {
    UNROLL for (int x = 0; x < KEYS / 2; ++x) score[x] = f(score[x]);
  }
  // Hides the keys outside [low, high) of each row, counted from the block's first.
  template <bool LOW> DEVICE void hide(const int (&low)[2], const int (&high)[2]) {
    UNROLL for (int n = 0; n < KEYS / 8; ++n)
      UNROLL for (int half = 0; half < 2; ++half)
        UNROLL for (int e = 0; e < 2; ++e)
          if (column(n) + e >= high[half] || (LOW && column(n) + e < low[half])) score[4 * n + 2 * half + e] = -__builtin_inff();
  }

  // Scores become weights 2^(score scale - base); `down` is what is to be done to the sums.
  DEVICE void weigh(f32 scale) {
    UNROLL for (int half = 0; half < 2; ++half) {
      f32 most = score[2 * half];
      UNROLL for (int n = 0; n < KEYS / 8; ++n)
        UNROLL for (int e = 0; e < 2; ++e) most = __builtin_fmaxf(most, score[4 * n + 2 * half + e]);
      most = __builtin_fmaxf(most, shuffle_xor(most, 1));
      most = __builtin_fmaxf(most, shuffle_xor(most, 2)) * scale;
      const bool higher = most > base[half] + 8.f;  // from -inf too
      down[half] = higher ? scalar::exp2_fast(base[half] - most) : 1.f;
      base[half] = higher ? most : base[half];
    }
    UNROLL for (int half = 0; half < 2; ++half) {
      // Nothing seen yet: -inf - -inf would be NaN, where only a NaN may be.
      const f32 from = base[half] == -__builtin_inff() ? 0.f : -base[half];
      f32 more[2] = {0, 0};
      UNROLL for (int n = 0; n < KEYS / 8; ++n)
        UNROLL for (int e = 0; e < 2; ++e) {
          f32& x = score[4 * n + 2 * half + e];
          x = scalar::exp2_fast(scalar::fma(x, scale, from));
          more[e] += x;
        }
      total[half] = scalar::fma(total[half], down[half], more[0] + more[1]);
    }
  }
  // True, once all weights are there: totals are no negative numbers.
  DEVICE bool weighed() const { return wave_any(!(total[0] + total[1] < 0.f)); }
  // Behind the products that read the weights before these and wrote the sums.
  DEVICE void take_weights() {
    UNROLL for (int k = 0; k < KEYS / 16; ++k)
      UNROLL for (int x = 0; x < 4; ++x) weight[k][x] = pack(score[8 * k + 2 * x], score[8 * k + 2 * x + 1], T{});
  }
  DEVICE void scale_down() {
    if (!wave_any(down[0] != 1.f || down[1] != 1.f)) return;
    UNROLL for (int n = 0; n < WIDTH / 8; ++n)
      UNROLL for (int e = 0; e < 4; ++e) sum[4 * n + e] *= down[e / 2];
  }
  DEVICE void finish_total() {
    UNROLL for (int half = 0; half < 2; ++half) {
      total[half] += shuffle_xor(total[half], 1);
      total[half] += shuffle_xor(total[half], 2);
    }
  }

  // The columns from 64 PIECE on, times `by`, to 64 rows of 128 bytes as a view with 128 bytes of swizzle stores them.
  template <int PIECE> DEVICE void put(u8* to, const f32 (&by)[2]) const {
    constexpr int blocks = WIDTH / 16 - PIECE * 4 < 4 ? WIDTH / 16 - PIECE * 4 : 4;
    const int r = wave() % 4 * 16 + wave_lane() % 16;
    UNROLL for (int k = 0; k < blocks; ++k) {
      u32 both[4];
      UNROLL for (int x = 0; x < 4; ++x) {
        const int from = (PIECE * 4 + k) * 8 + 2 * x;
        both[x] = pack(sum[from] * by[x % 2], sum[from + 1] * by[x % 2], T{});
      }
      store_matrix(to + r * 128 + (((k * 2 + wave_lane() / 16) ^ (r % 8)) * 16), both);
    }
  }
};

}  // namespace attention

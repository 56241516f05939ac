#pragma once
// Attention forward on a GPU in f32: the steps of one block of keys for the query rows of a group.
//
//   q [ROWS][DEPTH], keys [KEYS][DEPTH], values [KEYS][WIDTH]   f32 rows in scratch, padded with zeros to fours
//   scores [ROWS][KEYS + 4]                                     products of q and keys, then their weights in place
//   Sums                                                        weights x values in registers, not yet divided
//
// Softmax is online: `greatest` is the largest score so far, and what was summed under a smaller one is scaled down by
// e^(before - now). Keys are summed in their order, so a row's bits do not depend on how rows are grouped. Masked scores are -inf
// and nothing else: a real score may be as low as f32 goes.
namespace attention {

DEVICE i64 clamped(i64 x, i64 limit) { return x < 0 ? 0 : x > limit ? limit : x; }

// The keys [first_key, end_key) that a query sees that stands at `position` among `keys` keys; a window of -1 does not limit.
DEVICE i64 first_key(i64 position, i64 keys, i64 window_left) { return window_left < 0 ? 0 : clamped(position - window_left, keys); }
DEVICE i64 end_key(i64 position, i64 keys, bool causal, i64 window_right) {
  if (causal) keys = clamped(position + 1, keys);
  if (window_right >= 0) keys = clamped(position + window_right + 1, keys);
  return keys;
}

struct Larger {  // a NaN loses
  DEVICE f32 operator()(f32 a, f32 b) const { return __builtin_fmaxf(a, b); }
};

DEVICE void clear(f32* p, int count, int lane, int lanes) {
  for (int i = lane; i < count; i += lanes) p[i] = 0;
}

using Four = vec<f32, 4>;

DEVICE constexpr int at_most(int x, int limit) { return x < limit ? x : limit; }
DEVICE constexpr int at_least(int x, int limit) { return x > limit ? x : limit; }

// scores = q keys: a thread has up to four rows and every keys_apart-th key.
template <int THREADS, int ROWS, int KEYS, int DEPTH, int STRIDE>
DEVICE void scores_of_block(const f32* q, const f32* keys, f32* scores) {
  constexpr int rows = at_most(ROWS, at_least(at_most(ROWS * KEYS / THREADS, 4), 1)), keys_apart = at_most(KEYS, THREADS * rows / ROWS);
  constexpr int each = KEYS / keys_apart;
  if (thread() >= ROWS / rows * keys_apart) return;
  const int row = thread() / keys_apart * rows, key = thread() % keys_apart;
  f32 sum[rows][each];
  UNROLL for (int r = 0; r < rows; ++r)
    UNROLL for (int k = 0; k < each; ++k) sum[r][k] = 0;
  UNROLL_BY(4) for (int d = 0; d < DEPTH; d += 4) {
    Four a[rows], b[each];
    UNROLL for (int r = 0; r < rows; ++r) a[r] = load<Four>(q + (row + r) * STRIDE + d);
    UNROLL for (int k = 0; k < each; ++k) b[k] = load<Four>(keys + (key + k * keys_apart) * STRIDE + d);
    UNROLL for (int l = 0; l < 4; ++l)
      UNROLL for (int r = 0; r < rows; ++r)
        UNROLL for (int k = 0; k < each; ++k) sum[r][k] = scalar::fma(a[r][l], b[k][l], sum[r][k]);
  }
  UNROLL for (int r = 0; r < rows; ++r)
    UNROLL for (int k = 0; k < each; ++k) scores[(row + r) * (KEYS + 4) + key + k * keys_apart] = sum[r][k];
}

// One wave turns a row's scores into weights: those of keys outside [low, high) and from `count` on become 0. `factor` is what the
// row's sums so far are to be multiplied by. A NaN among the scores is not the largest, but makes its own weight and thereby
// the total NaN.
template <int KEYS> DEVICE void weigh(f32* score, i64 low, i64 high, i64 count, f32* greatest, f32* total, f32* factor) {
  const f32 none = -__builtin_inff();
  const f32 before = *greatest;
  f32 now = before;
  for (int j = wave_lane(); j < KEYS; j += WAVE) {
    if (j < low || j >= high || j >= count) score[j] = none;
    now = Larger()(now, score[j]);
  }
  now = wave_reduce(now, Larger());
  const f32 base = now == none ? 0.f : now;  // nothing seen yet: -inf - -inf would be NaN, where only a NaN may be
  f32 sum = 0;
  for (int j = wave_lane(); j < KEYS; j += WAVE) {
    const f32 weight = scalar::exp(score[j] - base);
    score[j] = weight;
    sum += weight;
  }
  sum = wave_reduce(sum, Sum());
  if (wave_lane() == 0) {
    const f32 down = before == now ? 1.f : scalar::exp(before - base);
    *greatest = now;
    *total = scalar::fma(*total, down, sum);
    *factor = down;
  }
}

DEVICE f32 soft_cap(f32 score, f32 cap) { return scalar::tanh(score / cap) * cap; }

// A thread's share of the sums: some rows, and every columns_apart-th four of columns.
template <int THREADS, int ROWS, int WIDTH> struct Sums {
  static constexpr int fours = WIDTH / 4;
  static constexpr int rows = at_most(ROWS, at_least(at_most(ROWS * fours / THREADS, 4), 1)), columns_apart = THREADS * rows / ROWS;
  static constexpr int each = (fours + columns_apart - 1) / columns_apart;
  Four at[rows][each];

  static DEVICE int row() { return thread() / columns_apart * rows; }
  static DEVICE int column(int c) { return (thread() % columns_apart + c * columns_apart) * 4; }

  DEVICE void clear() {
    UNROLL for (int r = 0; r < rows; ++r)
      UNROLL for (int c = 0; c < each; ++c) at[r][c] = splat<Four>(0.f);
  }
  template <int KEYS> DEVICE void add(const f32* scores, const f32* values, const f32* factor) {
    UNROLL for (int r = 0; r < rows; ++r)
      UNROLL for (int c = 0; c < each; ++c) at[r][c] = at[r][c] * splat<Four>(factor[row() + r]);
    for (int j = 0; j < KEYS; j += 4) {
      Four weight[rows];
      UNROLL for (int r = 0; r < rows; ++r) weight[r] = load<Four>(scores + (row() + r) * (KEYS + 4) + j);
      UNROLL for (int l = 0; l < 4; ++l)
        UNROLL for (int c = 0; c < each; ++c)
          if (column(c) < WIDTH) {
            const Four value = load<Four>(values + (j + l) * WIDTH + column(c));
            UNROLL for (int r = 0; r < rows; ++r) at[r][c] = math::fma(splat<Four>(weight[r][l]), value, at[r][c]);
          }
    }
  }
  DEVICE void put(f32* results) const {
    UNROLL for (int r = 0; r < rows; ++r)
      UNROLL for (int c = 0; c < each; ++c)
        if (column(c) < WIDTH) ::store(results + (row() + r) * WIDTH + column(c), at[r][c]);
  }
};

// ---- keys that several groups shared ------------------------------------------------------------------------------------------
// One wave: weight[s] becomes what the sums of split s are to be multiplied by; returns the total of all. `parts`: greatest and
// total of each split, `apart` from one to the next. POWER: e^x or 2^x, as the splits counted.
struct Exponential {
  DEVICE f32 operator()(f32 x) const { return scalar::exp(x); }
};
struct PowerOfTwo {
  DEVICE f32 operator()(f32 x) const { return scalar::exp2(x); }
};
template <class POWER> DEVICE f32 weights_of_splits(const f32* parts, i64 apart, int splits, f32* weight) {
  f32 greatest = -__builtin_inff();
  for (int s = wave_lane(); s < splits; s += WAVE) greatest = Larger()(greatest, parts[s * apart]);
  greatest = wave_reduce(greatest, Larger());
  for (int s = wave_lane(); s < splits; s += WAVE) weight[s] = parts[s * apart] == greatest ? 1.f : POWER()(parts[s * apart] - greatest);
  wave_barrier();
  f32 total = 0;
  for (int s = 0; s < splits; ++s) total = scalar::fma(parts[s * apart + 1], weight[s], total);
  return total;
}
template <class V> DEVICE V sum_of_splits(const f32* sums, i64 apart, int splits, const f32* weight) {
  V total = splat<V>(0.f);
  for (int s = 0; s < splits; ++s) total = math::fma(load<V>(sums + s * apart), splat<V>(weight[s]), total);
  return total;
}

}  // namespace attention

#pragma once
// Attention forward on a CPU: the steps of one block of keys for a few query rows.
//
//   keys_t [depth][key_block]    k of the block, transposed once and used by all query rows of the group
//   scores [row_tile][key_block] of row_tile queries: product of q rows and keys_t, then their weights in place
//   sums   [rows][width]         accumulated weights x v, not yet divided
//
// Softmax is online: `greatest` is the largest score so far, and what was summed under a smaller one is scaled down by
// e^(before - now). The block of keys is fixed and starts at multiples of its size, so a row's bits do not depend on how rows
// are grouped. Masked scores are -inf and nothing else: a real score may be as low as f32 goes.
namespace attention {

using V = vec<f32, VEC>;
constexpr int key_block = 128;
constexpr int row_tile = 8;
// A product holds 16 sums of 32 registers, or 8 of 16: four rows by `widest` vectors of columns, or more rows by fewer.
constexpr int most_sums = VEC == 16 ? 16 : 8;
constexpr int product_rows = 4;
constexpr int widest = most_sums / product_rows;
constexpr int column_step = widest * VEC;

// c[rows][vectors * VEC] = (add: c +) a[rows][depth] b[depth][vectors * VEC], each element summed in the order of depth.
template <int rows, int vectors, bool add, class S>
DEVICE void product_tile(const f32* a, i64 a_stride, const S* b, i64 b_stride, f32* c, i64 c_stride, i64 depth) {
  V sum[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      if constexpr (add) sum[r][v] = load<V>(c + r * c_stride + v * VEC);
      else sum[r][v] = V{};
    }
  for (i64 k = 0; k < depth; ++k) {
    V row[vectors];
    for (int v = 0; v < vectors; ++v) row[v] = load<V>(b + k * b_stride + v * VEC);
    for (int r = 0; r < rows; ++r) {
      const V x = splat<V>(a[r * a_stride + k]);
      for (int v = 0; v < vectors; ++v) sum[r][v] = math::fma(x, row[v], sum[r][v]);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) store(c + r * c_stride + v * VEC, sum[r][v]);
}
template <int rows, int vectors, bool add, class S>
DEVICE void product(const f32* a, i64 a_stride, const S* b, i64 b_stride, f32* c, i64 c_stride, i64 depth) {
  if constexpr (rows > product_rows && rows * vectors > most_sums) {
    product<rows / 2, vectors, add>(a, a_stride, b, b_stride, c, c_stride, depth);
    product<rows - rows / 2, vectors, add>(a + rows / 2 * a_stride, a_stride, b, b_stride, c + rows / 2 * c_stride, c_stride, depth);
  } else if constexpr (vectors > widest) {
    product_tile<rows, widest, add>(a, a_stride, b, b_stride, c, c_stride, depth);
    product<rows, vectors - widest, add>(a, a_stride, b + column_step, b_stride, c + column_step, c_stride, depth);
  } else {
    product_tile<rows, vectors, add>(a, a_stride, b, b_stride, c, c_stride, depth);
  }
}

// scores[row_tile][count, rounded up] = q[row_tile][depth] keys_t. Columns behind `count` get any numbers: hide() covers them.
template <int depth> DEVICE void scores_of_tile(const f32* q, const f32* keys_t, i64 count, f32* scores) {
  for (i64 j = 0; j < count; j += column_step)
    product<row_tile, widest, false>(q, depth, keys_t + j, key_block, scores + j, key_block, depth);
}

// For so few query rows that transposing the keys would cost more than it saves: one key after the other, read once for all rows.
template <int rows, int depth, class S> DEVICE void scores_by_key(const f32* q, const S* keys, i64 stride, i64 count, f32* scores) {
  for (i64 j = 0; j < count; ++j) {
    const S* key = keys + j * stride;
    V sum[rows] = {};
    f32 rest[rows] = {};
    int d = 0;
    for (; d + VEC <= depth; d += VEC) {
      const V part = load<V>(key + d);
      for (int r = 0; r < rows; ++r) sum[r] = math::fma(load<V>(q + r * depth + d), part, sum[r]);
    }
    for (; d < depth; ++d) {
      const f32 part = load<f32>(key + d);
      for (int r = 0; r < rows; ++r) rest[r] = math::fma(q[r * depth + d], part, rest[r]);
    }
    for (int r = 0; r < rows; ++r) scores[r * key_block + j] = math::reduce_sum(sum[r]) + rest[r];
  }
}

// Eight keys by eight of their elements: pairs, then fours, then halves change places.
DEVICE void transpose_8x8(const vec<f32, 8>* in, f32* out, i64 out_stride) {
  using W = vec<f32, 8>;
  W a[8], b[8];
  for (int p = 0; p < 8; p += 2) {
    a[p] = __builtin_shufflevector(in[p], in[p + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    a[p + 1] = __builtin_shufflevector(in[p], in[p + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int f = 0; f < 8; f += 4)
    for (int p = 0; p < 2; ++p) {
      b[f + 2 * p] = __builtin_shufflevector(a[f + p], a[f + p + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      b[f + 2 * p + 1] = __builtin_shufflevector(a[f + p], a[f + p + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int p = 0; p < 4; ++p) {
    store(out + p * out_stride, W(__builtin_shufflevector(b[p], b[p + 4], 0, 1, 2, 3, 8, 9, 10, 11)));
    store(out + (p + 4) * out_stride, W(__builtin_shufflevector(b[p], b[p + 4], 4, 5, 6, 7, 12, 13, 14, 15)));
  }
}

// keys_t[d][j] = keys[j][d]
template <int depth, class S> DEVICE void transpose(const S* keys, i64 stride, i64 count, f32* keys_t) {
  i64 j = 0;
  for (; j + 8 <= count; j += 8) {
    int d = 0;
    for (; d + 8 <= depth; d += 8) {
      vec<f32, 8> block[8];
      for (int l = 0; l < 8; ++l) block[l] = load<vec<f32, 8>>(keys + (j + l) * stride + d);
      transpose_8x8(block, keys_t + d * key_block + j, key_block);
    }
    for (; d < depth; ++d)
      for (int l = 0; l < 8; ++l) keys_t[d * key_block + j + l] = load<f32>(keys + (j + l) * stride + d);
  }
  for (; j < count; ++j)
    for (int d = 0; d < depth; ++d) keys_t[d * key_block + j] = load<f32>(keys + j * stride + d);
}

// The keys [low, high) that a query sees.
struct Range {
  i64 low, high;
};

DEVICE i64 clamped(i64 x, i64 limit) { return x < 0 ? 0 : x > limit ? limit : x; }

// `position` is where the query stands among `keys` keys; a window of -1 does not limit.
DEVICE Range range_of(i64 position, i64 keys, i64 window_left, bool causal, i64 window_right) {
  i64 low = 0, high = keys;
  if (window_left >= 0) low = clamped(position - window_left, keys);
  if (causal) high = clamped(position + 1, high);
  if (window_right >= 0) high = clamped(position + window_right + 1, high);
  return low < high ? Range{low, high} : Range{keys, 0};
}
DEVICE Range range_of_tile(const Range* seen, i64 rows) {
  Range all = seen[0];
  for (i64 r = 1; r < rows && r < row_tile; ++r) {
    if (seen[r].low < all.low) all.low = seen[r].low;
    if (seen[r].high > all.high) all.high = seen[r].high;
  }
  return all;
}

// The keys of the block that a row does not see: outside [low, high), up to a whole vector behind `count`.
DEVICE void hide(f32* scores, i64 low, i64 high, i64 count) {
  const i64 end = (count + VEC - 1) / VEC * VEC;
  for (i64 j = 0; j < low && j < end; ++j) scores[j] = -__builtin_inff();
  for (i64 j = high < 0 ? 0 : high; j < end; ++j) scores[j] = -__builtin_inff();
}

DEVICE void soft_cap(f32* scores, i64 count, f32 cap) {
  for (i64 j = 0; j < count; j += VEC) store(scores + j, V(math::tanh(V(load<V>(scores + j) / cap)) * cap));
}

struct Running {
  f32 greatest, total;
};

// e^x for x <= 0. Below -87 it is 0: beside the weight 1 of the largest score nothing of it is left in f32.
template <class T> DEVICE T weight_of(T x) {
  const auto parts = math::detail::exp_parts(x);
  const T power = math::detail::power_of_two<T>(parts.n);
  return select(x < -87.f, T{}, math::fma(power, parts.r_minus, power));
}

// The largest of a row's scores and of `before`. A NaN is not the largest.
DEVICE f32 greatest_of(const f32* scores, i64 count, f32 before) {
  const auto larger = [](auto a, auto b) { return math::greater(b, a); };
  V chain[2] = {splat<V>(before), splat<V>(-__builtin_inff())};
  i64 j = 0;
  for (; j + 2 * VEC <= count; j += 2 * VEC) {
    chain[0] = larger(chain[0], load<V>(scores + j));
    chain[1] = larger(chain[1], load<V>(scores + j + VEC));
  }
  for (; j < count; j += VEC) chain[0] = larger(chain[0], load<V>(scores + j));
  return math::reduce(larger(chain[0], chain[1]), larger);
}

// Turns a row's scores into weights and says by what the row's sums so far are to be multiplied. `greatest` is greatest_of this row;
// all rows of a tile find theirs before the first is weighed, so that the steps across lanes of several rows overlap. A NaN among the
// scores makes its own weight and thereby the total NaN.
DEVICE f32 weights(f32* scores, i64 count, f32 greatest, Running& row) {
  i64 j = 0;
  if (greatest == -__builtin_inff()) {  // nothing seen yet: -inf - -inf would be NaN, where only a NaN may be
    for (; j < count; ++j) {
      if (scores[j] != scores[j]) row.total = scores[j];
      scores[j] = 0;
    }
    return 1.f;
  }
  V sum[2] = {};
  const auto weigh = [&](i64 at) {
    const V weight = weight_of(V(load<V>(scores + at) - greatest));
    store(scores + at, weight);
    return weight;
  };
  for (; j + 2 * VEC <= count; j += 2 * VEC) {
    sum[0] += weigh(j);
    sum[1] += weigh(j + VEC);
  }
  for (; j < count; j += VEC) sum[0] += weigh(j);
  const f32 factor = row.greatest == greatest ? 1.f : weight_of(row.greatest - greatest);
  row = {greatest, math::fma(row.total, factor, math::reduce_sum(V(sum[0] + sum[1])))};
  return factor;
}

DEVICE void clear(f32* p, i64 count) {
  for (i64 i = 0; i < count; ++i) p[i] = 0;
}
template <int width> DEVICE void rescale(f32* sums, f32 factor) {
  if (factor == 1.f) return;
  for (int v = 0; v < width; v += VEC) store(sums + v, V(load<V>(sums + v) * factor));
}

}  // namespace attention

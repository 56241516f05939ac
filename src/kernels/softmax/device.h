#pragma once
// Softmax and log-softmax: what one row (or one tile of columns) needs between the loop that fills the buffer and the loop that
// stores results. One exponential an element; the buffer stays in the L1 or L2 cache.
//
//   row      count neighbours                                   the softmax axis is the innermost one
//   columns  [count][width], softmax down each of the columns   the axis is an outer one: lanes run along the inner axes
//
// The greatest element passes NaN on, so a row with a NaN, with +inf, or of -inf only gives NaN as the written-out form does.
namespace softmax {

using V = vec<f32, VEC>;

// Four chains of VEC lanes, combined in one fixed order; the rest one by one. The order depends on `count` only.
DEVICE f32 greatest(const f32* row, i64 count) {
  const f32 lowest = -__builtin_inff();
  V chain[4] = {splat<V>(lowest), splat<V>(lowest), splat<V>(lowest), splat<V>(lowest)};
  i64 i = 0;
  for (; i + 4 * VEC <= count; i += 4 * VEC)
    for (int c = 0; c < 4; ++c) chain[c] = math::max(chain[c], load<V>(row + i + c * VEC));
  f32 rest = lowest;
  for (; i < count; ++i) rest = math::max(rest, row[i]);
  return math::max(math::reduce_max(math::max(math::max(chain[0], chain[1]), math::max(chain[2], chain[3]))), rest);
}

// Sum of e^(x - shift) over the row; `keep` writes the exponentials back.
template <bool keep> DEVICE f32 exponentials(f32* row, i64 count, f32 shift) {
  V chain[4] = {};
  i64 i = 0;
  for (; i + 4 * VEC <= count; i += 4 * VEC)
    for (int c = 0; c < 4; ++c) {
      V e = math::exp_negative(V(load<V>(row + i + c * VEC) - shift));
      if constexpr (keep) store(row + i + c * VEC, e);
      chain[c] += e;
    }
  f32 rest = 0;
  for (; i < count; ++i) {
    f32 e = math::exp_negative(row[i] - shift);
    if constexpr (keep) row[i] = e;
    rest += e;
  }
  return math::reduce_sum(V((chain[0] + chain[1]) + (chain[2] + chain[3]))) + rest;
}

// The same down the columns [column, column + VEC) of a [count][width] tile.
DEVICE V greatest_of_columns(const f32* tile, i64 count, i64 width) {
  V result = splat<V>(-__builtin_inff());
  for (i64 j = 0; j < count; ++j) result = math::max(result, load<V>(tile + j * width));
  return result;
}
template <bool keep> DEVICE V exponentials_of_columns(f32* tile, i64 count, i64 width, V shift) {
  // Two sums, so that the addition's latency is not the bound.
  auto step = [&](i64 j) {
    V e = math::exp_negative(V(load<V>(tile + j * width) - shift));
    if constexpr (keep) store(tile + j * width, e);
    return e;
  };
  V even = {}, odd = {};
  i64 j = 0;
  for (; j + 2 <= count; j += 2) {
    even += step(j);
    odd += step(j + 1);
  }
  if (j < count) even += step(j);
  return even + odd;
}

}  // namespace softmax

#pragma once
// Layer and RMS normalisation: what one row needs between the loop that fills the row buffer (the prologue) and the loop that
// stores results (the epilogue). The row stays in the L1 cache, so passes over it are cheap beside reading it from memory.
//
//   mean     of the row, summed as differences from its first element: a constant row centres to exactly 0, and a large mean
//            costs no digits
//   mean_of_result  summed in f64, where the mean itself is asked for: a mean of almost 0 beside large elements is then all digits
//   centre   row[i] <- row[i] - mean, and the squares of that: variance never comes from E[x^2] - E[x]^2
//   spread   1 / sqrt(squares / count + epsilon); squares that left the range of f32 are summed again in f64
//
// The order of every sum is fixed: four chains, the rest one by one, whatever the parameters of the kernel.
namespace norm {

using V = vec<f32, VEC>;

DEVICE f64 mean_of_result(const f32* row, i64 count) {
  constexpr int width = VEC / 2;  // one register of f64
  using W = vec<f64, width>;
  W chain[4] = {};
  i64 i = 0;
  for (; i + 4 * width <= count; i += 4 * width)
    for (int c = 0; c < 4; ++c) chain[c] += load<W>(row + i + c * width);
  f64 rest = 0;
  for (; i < count; ++i) rest += f64(row[i]);
  return (math::reduce_sum(W((chain[0] + chain[1]) + (chain[2] + chain[3]))) + rest) / f64(count);
}

DEVICE f64 mean(const f32* row, i64 count) {
  const f32 origin = row[0];
  V chain[4] = {};
  i64 i = 0;
  for (; i + 4 * VEC <= count; i += 4 * VEC)
    for (int c = 0; c < 4; ++c) chain[c] += load<V>(row + i + c * VEC) - origin;
  f32 rest = 0;
  for (; i < count; ++i) rest += row[i] - origin;
  const f32 sum = math::reduce_sum(V((chain[0] + chain[1]) + (chain[2] + chain[3]))) + rest;
  if (!(sum > -1e38f && sum < 1e38f)) return mean_of_result(row, count);  // differences leave the range before the elements do
  return f64(origin) + f64(sum) / f64(count);
}

// Sum of the squares of f(i, V or f32); f also stores what it squared.
template <class F> DEVICE f32 squares_of(i64 count, F f) {
  V chain[4] = {};
  i64 i = 0;
  for (; i + 4 * VEC <= count; i += 4 * VEC)
    for (int c = 0; c < 4; ++c) {
      V x = f(i + c * VEC, V{});
      chain[c] = math::fma(x, x, chain[c]);
    }
  f32 rest = 0;
  for (; i < count; ++i) {
    f32 x = f(i, f32{});
    rest = math::fma(x, x, rest);
  }
  return math::reduce_sum(V((chain[0] + chain[1]) + (chain[2] + chain[3]))) + rest;
}

DEVICE f32 squares(const f32* row, i64 count) {
  return squares_of(count, [&](i64 i, auto lanes) { return load<decltype(lanes)>(row + i); });
}

// The mean goes in as two f32, so that a large one does not lose what its last bit cannot hold.
DEVICE f32 centre(f32* row, i64 count, f64 mean) {
  const f32 high = f32(mean), low = f32(mean - f64(high));
  return squares_of(count, [&](i64 i, auto lanes) {
    auto x = load<decltype(lanes)>(row + i) - high - low;
    store(row + i, x);
    return x;
  });
}

DEVICE f32 spread(f32 squares, const f32* row, i64 count, f64 epsilon) {
  f64 sum = f64(squares);
  if (!(squares > 1e-30f && squares < 1e38f)) {
    sum = 0;
    for (i64 i = 0; i < count; ++i) sum += f64(row[i]) * f64(row[i]);
  }
  return f32(1.0 / __builtin_sqrt(sum / f64(count) + epsilon));
}

}  // namespace norm

#pragma once
// Layer and RMS normalisation: what one row needs between the loop that fills the row buffer (the prologue) and the loop that
// stores results (the epilogue). The row stays in the L1 cache, so passes over it are cheap beside reading it from memory.
//
// A centred row takes one pass. It sums d = row[i] - shift and d^2, where shift is the mean of the first elements: near the mean of
// most rows, and exactly the value of a constant row, which so centres to exactly 0. Then
//
//   mean = shift + rest,  rest = sum(d) / count        variance = (sum(d^2) - sum(d) rest) / count
//
// and an element is normalised as (row[i] - shift) * spread - rest * spread. The subtraction in the variance is harmless while shift is
// within some deviations of the mean; where it is not (or something overflowed) the row is summed again, the mean in f64 first.
//
// The order of every sum is fixed: four chains, the rest one by one, whatever the parameters of the kernel.
namespace norm {

using V = vec<f32, VEC>;

// Sum of f(x) over the row in f64; f takes a register of f64 or one.
template <class F> DEVICE f64 sum_of(const f32* row, i64 count, F f) {
  constexpr int width = VEC / 2;
  using W = vec<f64, width>;
  W chain[4] = {};
  i64 i = 0;
  for (; i + 4 * width <= count; i += 4 * width)
    for (int c = 0; c < 4; ++c) chain[c] += f(load<W>(row + i + c * width));
  f64 rest = 0;
  for (; i < count; ++i) rest += f(f64(row[i]));
  return math::reduce_sum(W((chain[0] + chain[1]) + (chain[2] + chain[3]))) + rest;
}

DEVICE f32 squares(const f32* row, i64 count) {
  V chain[4] = {};
  i64 i = 0;
  for (; i + 4 * VEC <= count; i += 4 * VEC)
    for (int c = 0; c < 4; ++c) {
      const V x = load<V>(row + i + c * VEC);
      chain[c] = math::fma(x, x, chain[c]);
    }
  f32 rest = 0;
  for (; i < count; ++i) rest = math::fma(row[i], row[i], rest);
  return math::reduce_sum(V((chain[0] + chain[1]) + (chain[2] + chain[3]))) + rest;
}

DEVICE f32 spread(f32 squares, const f32* row, i64 count, f64 epsilon) {
  f64 sum = f64(squares);
  if (!(squares > 1e-30f && squares < 1e38f)) {
    sum = 0;
    for (i64 i = 0; i < count; ++i) sum += f64(row[i]) * f64(row[i]);
  }
  return f32(1.0 / __builtin_sqrt(sum / f64(count) + epsilon));
}

struct Centred {
  f32 shift, rest;  // mean = shift + rest, in two so that a large mean does not lose what its last bit cannot hold
  f32 spread;
};

// The mean first, then the squares about it, both in f64. Also where mean or deviation are results themselves: a mean of almost 0
// beside large elements is then all digits.
__attribute__((noinline)) static Centred centred_carefully(const f32* row, i64 count, f64 epsilon) {
  const f64 mean = sum_of(row, count, [](auto x) { return x; }) / f64(count);
  const f64 squares = sum_of(row, count, [&](auto x) { return (x - mean) * (x - mean); });
  const f32 shift = f32(mean);
  return {shift, f32(mean - f64(shift)), f32(1.0 / __builtin_sqrt(squares / f64(count) + epsilon))};
}

// The pass in three parts, so that a kernel can sum one row while it finishes another: begin, then step at 0, width, 2 width, ... to the
// last that is whole, then finish, which adds the rest. Step number k adds to chain k % chains.
constexpr int chains = 4;
struct Sums {
  f32 shift;
  V sums[chains], squares[chains];
};
DEVICE Sums begin(const f32* row, i64 count) {
  Sums s = {row[0], {}, {}};
  if (count >= chains * VEC) {  // a power of two: equal elements add up without rounding
    const V first = load<V>(row) + load<V>(row + VEC), second = load<V>(row + 2 * VEC) + load<V>(row + 3 * VEC);
    s.shift = math::reduce_sum(V(first + second)) * (1.f / f32(chains * VEC));
  }
  return s;
}
DEVICE void step(Sums& s, const f32* at, int chain) {
  const V d = load<V>(at) - s.shift;
  s.sums[chain] += d;
  s.squares[chain] = math::fma(d, d, s.squares[chain]);
}
DEVICE Centred finish(const Sums& s, const f32* row, i64 count, f64 epsilon) {
  f32 last_sum = 0, last_squares = 0;
  for (i64 i = count / (chains * VEC) * (chains * VEC); i < count; ++i) {
    const f32 d = row[i] - s.shift;
    last_sum += d;
    last_squares = math::fma(d, d, last_squares);
  }
  const f64 sum = f64(math::reduce_sum(V((s.sums[0] + s.sums[1]) + (s.sums[2] + s.sums[3]))) + last_sum);
  const f64 square = f64(math::reduce_sum(V((s.squares[0] + s.squares[1]) + (s.squares[2] + s.squares[3]))) + last_squares);
  const f64 rest = sum * (1.0 / f64(count)), scatter = square - sum * rest;
  const bool sound = scatter * 4 > square && square > 1e-30 && square < 1e38;  // 4: the subtraction may lose two bits
  if (__builtin_expect(!sound, 0)) return centred_carefully(row, count, epsilon);
  return {s.shift, f32(rest), f32(1.0 / __builtin_sqrt(scatter * (1.0 / f64(count)) + epsilon))};
}
DEVICE Centred centred(const f32* row, i64 count, f64 epsilon) {
  Sums s = begin(row, count);
  for (i64 i = 0; i + chains * VEC <= count; i += chains * VEC)
    for (int c = 0; c < chains; ++c) step(s, row + i + c * VEC, c);
  return finish(s, row, count, epsilon);
}

}  // namespace norm

#pragma once
// One row of each operator, over accessors that know where elements lie: x(i) reads, y(i, value) writes. T is f64 or a 64-bit integer.
namespace loopnest {

// c(n) = sum of a(k) b(k, n): columns side by side, so that b is read along them.
template <class T, class A, class B, class C> DEVICE void matmul_row(i64 columns, i64 depth, A a, B b, C c) {
  constexpr i64 block = 128;
  for (i64 first = 0; first < columns; first += block) {
    const i64 width = columns - first < block ? columns - first : block;
    T sum[block] = {};
    for (i64 k = 0; k < depth; ++k) {
      const T x = a(k);
      for (i64 n = 0; n < width; ++n) sum[n] += x * b(k, first + n);
    }
    for (i64 n = 0; n < width; ++n) c(first + n, sum[n]);
  }
}
// The same where b is contiguous along k: eight partial sums, then one tree.
template <class T, class A, class B, class C> DEVICE void matmul_row_dots(i64 columns, i64 depth, A a, B b, C c) {
  for (i64 n = 0; n < columns; ++n) {
    T part[8] = {};
    i64 k = 0;
    for (; k + 8 <= depth; k += 8)
      for (int l = 0; l < 8; ++l) part[l] += a(k + l) * b(k + l, n);
    for (; k < depth; ++k) part[0] += a(k) * b(k, n);
    c(n, ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7])));
  }
}

template <class X> DEVICE f64 largest(i64 count, X x) {
  f64 m = -__builtin_inf();
  for (i64 i = 0; i < count; ++i) m = math::max(m, f64(x(i)));
  return m;
}

template <class X, class Y> DEVICE void softmax_row(i64 count, bool logarithm, X x, Y y) {
  const f64 m = largest(count, x);
  f64 sum = 0;
  for (i64 i = 0; i < count; ++i) sum += math::exp(f64(x(i) - m));
  const f64 log_sum = math::log(sum);
  for (i64 i = 0; i < count; ++i) y(i, logarithm ? x(i) - m - log_sum : math::exp(f64(x(i) - m)) / sum);
}

// y = (x - mean) / sqrt(variance + epsilon), variance by a second pass; not centred: mean is 0. `result` takes (i, y), `statistics` (mean, 1/sqrt).
template <class X, class Y, class S> DEVICE void norm_row(i64 count, bool centred, f64 epsilon, X x, Y result, S statistics) {
  f64 sum = 0, squares = 0;
  if (centred)
    for (i64 i = 0; i < count; ++i) sum += x(i);
  const f64 mean = centred ? sum / f64(count) : 0.0;
  for (i64 i = 0; i < count; ++i) squares += (x(i) - mean) * (x(i) - mean);
  const f64 inverse = 1.0 / math::sqrt(squares / f64(count) + epsilon);
  for (i64 i = 0; i < count; ++i) result(i, (x(i) - mean) * inverse);
  statistics(mean, inverse);
}

// Reductions: R as in the order reduce_sum, reduce_mean, reduce_max, reduce_min; start is what nothing gives.
template <class T, int R, class X> DEVICE T reduce_row(i64 count, T start, X x) {
  T acc = start;
  for (i64 i = 0; i < count; ++i) {
    const T v = x(i);
    if constexpr (R <= 1) acc = T(acc + v);
    else if constexpr (R == 2) acc = math::max(acc, v);
    else acc = math::min(acc, v);
  }
  if constexpr (R == 1) {
    if constexpr (lanes::floating<T>) acc = acc / T(count);
    else acc = count == 0 ? T(0) : T(acc / T(count));
  }
  return acc;
}

// One query: score(j) gives the masked score (-inf: the key takes no part and its v is not read).
template <class S, class V, class Y>
DEVICE void attention_row(i64 keys, i64 width, f64 empty, f64* scores, f64* out, S score, V v, Y y) {
  f64 m = -__builtin_inf();
  for (i64 j = 0; j < keys; ++j) {
    scores[j] = score(j);
    m = math::max(m, scores[j]);
  }
  if (m == -__builtin_inf()) {
    for (i64 d = 0; d < width; ++d) y(d, empty);
    return;
  }
  for (i64 d = 0; d < width; ++d) out[d] = 0;
  f64 total = 0;
  for (i64 j = 0; j < keys; ++j) {
    if (scores[j] == -__builtin_inf() && m == m) continue;
    const f64 weight = math::exp(f64(scores[j] - m));
    for (i64 d = 0; d < width; ++d) out[d] += weight * v(j, d);
    total += weight;
  }
  for (i64 d = 0; d < width; ++d) y(d, out[d] / total);
}
}  // namespace loopnest

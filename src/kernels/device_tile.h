#pragma once
// Transposed copies of small blocks: lanes are exchanged in registers, so that both sides are read and written along rows.
namespace tile {
template <class T> struct Bits { using type = T; };
template <> struct Bits<f16> { using type = u16; };
template <> struct Bits<bf16> { using type = u16; };

// Exchanges blocks of S lanes between rows a and b: a keeps its even blocks and takes b's even ones, b the odd ones.
template <int S, class V> DEVICE void exchange(V& a, V& b) {
  V x, y;
  if constexpr (S == 1) {
    x = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
    y = __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  } else if constexpr (S == 2) {
    x = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
    y = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  } else {
    x = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    y = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
  a = x;
  b = y;
}

// to[m * to_stride + n] = from[n * from_stride + m] for 8 x 8 elements.
template <class T> DEVICE void transpose8(const T* from, i64 from_stride, T* to, i64 to_stride) {
  using V = vec<T, 8>;
  V r[8];
  for (int n = 0; n < 8; ++n) r[n] = load<V>(from + n * from_stride);
  exchange<4>(r[0], r[4]); exchange<4>(r[1], r[5]); exchange<4>(r[2], r[6]); exchange<4>(r[3], r[7]);
  exchange<2>(r[0], r[2]); exchange<2>(r[1], r[3]); exchange<2>(r[4], r[6]); exchange<2>(r[5], r[7]);
  exchange<1>(r[0], r[1]); exchange<1>(r[2], r[3]); exchange<1>(r[4], r[5]); exchange<1>(r[6], r[7]);
  for (int m = 0; m < 8; ++m) store(to + m * to_stride, r[m]);
}

// to[m * to_stride + n] = from[n * from_stride + m] for n < rows, m < columns.
template <class S> DEVICE void transpose(const S* source, i64 from_stride, S* target, i64 to_stride, i64 rows, i64 columns) {
  using T = typename Bits<S>::type;
  const T* from = reinterpret_cast<const T*>(source);
  T* to = reinterpret_cast<T*>(target);
  i64 n = 0;
  for (; n + 8 <= rows; n += 8) {
    i64 m = 0;
    for (; m + 8 <= columns; m += 8) transpose8(from + n * from_stride + m, from_stride, to + m * to_stride + n, to_stride);
    for (; m < columns; ++m)
      for (int k = 0; k < 8; ++k) to[m * to_stride + n + k] = from[(n + k) * from_stride + m];
  }
  for (; n < rows; ++n)
    for (i64 m = 0; m < columns; ++m) to[m * to_stride + n] = from[n * from_stride + m];
}

// The lines of the next tile, so that they arrive while this one is turned: rows far apart are what no hardware prefetcher follows.
template <class S> DEVICE void fetch_rows(const S* from, i64 stride, i64 rows, i64 columns) {
  constexpr i64 line = 64 / sizeof(S);
  for (i64 n = 0; n < rows; ++n)
    for (i64 m = 0; m < columns; m += line) __builtin_prefetch(from + n * stride + m, 0, 3);
}
template <class S> DEVICE void fetch_for_writing(const S* to, i64 columns) {
  constexpr i64 line = 64 / sizeof(S);
  for (i64 m = 0; m < columns; m += line) __builtin_prefetch(to + m, 1, 3);
}
}  // namespace tile

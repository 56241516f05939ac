#pragma once
// What kernels of all GPUs call, on top of a prelude's primitives (docs/adr/0010): vec<T, N> of one thread, conversions, loads and
// stores, mathematics, reductions over a wave and a group. The words are those of backend/cpu/prelude.h and codegen/row.inc.h, so
// that codegen prints the same statements for both.

// ---- vectors: N numbers of one thread ---------------------------------------------------------------------------------------------
namespace lanes {
template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;
template <class T> constexpr bool floating = same<T, f32> || same<T, f64>;
template <class T> constexpr bool half_storage = same<T, f16> || same<T, bf16>;
template <class T, int N> struct Vec {
  T at[N];
  DEVICE T& operator[](int l) { return at[l]; }
  DEVICE const T& operator[](int l) const { return at[l]; }
};
template <class T, int N> struct VecOf { using type = Vec<T, N>; };
template <class T> struct VecOf<T, 1> { using type = T; };
template <class V> struct Of {
  using type = V;
  static constexpr int count = 1;
};
template <class T, int N> struct Of<Vec<T, N>> {
  using type = T;
  static constexpr int count = N;
};
}  // namespace lanes

template <class T, int N> using vec = typename lanes::VecOf<T, N>::type;  // vec<T, 1> is T itself
template <class V> using lane_t = typename lanes::Of<V>::type;
template <class V> constexpr int lane_count = lanes::Of<V>::count;
template <class V, class T> using with_lane = vec<T, lane_count<V>>;
// bool for one lane, i32 lanes of 0 / -1 for more: what comparisons give.
template <int W> struct MaskOf { using type = lanes::Vec<i32, W>; };
template <> struct MaskOf<1> { using type = bool; };
template <int W> using mask = typename MaskOf<W>::type;

template <class V> DEVICE V splat(lane_t<V> x) {
  if constexpr (lane_count<V> == 1) {
    return x;
  } else {
    V r;
    UNROLL for (int l = 0; l < lane_count<V>; ++l) r[l] = x;
    return r;
  }
}
// lane l is f(l); do_lanes calls f(l) for its effect.
template <class V, class F> DEVICE V by_lane(F f) {
  if constexpr (lane_count<V> == 1) {
    return f(0);
  } else {
    V r;
    UNROLL for (int l = 0; l < lane_count<V>; ++l) r[l] = lane_t<V>(f(l));
    return r;
  }
}
template <int W, class F> DEVICE void do_lanes(F f) {
  UNROLL for (int l = 0; l < W; ++l) f(l);
}
template <class V> DEVICE lane_t<V> lane(V x, int l) {
  if constexpr (lane_count<V> == 1) {
    return x;
  } else {  // a constant place after unrolling; written so that a variable one costs no local memory
    lane_t<V> r = x[0];
    UNROLL for (int k = 1; k < lane_count<V>; ++k) r = l == k ? x[k] : r;
    return r;
  }
}

#define RTX_VECTOR_OPERATOR(op)                                                                                            \
  template <class T, int N> DEVICE lanes::Vec<T, N> operator op(lanes::Vec<T, N> a, lanes::Vec<T, N> b) {                  \
    return by_lane<lanes::Vec<T, N>>([&](int l) { return T(a[l] op b[l]); });                                              \
  }                                                                                                                        \
  template <class T, int N> DEVICE lanes::Vec<T, N> operator op(lanes::Vec<T, N> a, lane_t<lanes::Vec<T, N>> b) {          \
    return by_lane<lanes::Vec<T, N>>([&](int l) { return T(a[l] op b); });                                                 \
  }                                                                                                                        \
  template <class T, int N> DEVICE lanes::Vec<T, N> operator op(lane_t<lanes::Vec<T, N>> a, lanes::Vec<T, N> b) {          \
    return by_lane<lanes::Vec<T, N>>([&](int l) { return T(a op b[l]); });                                                 \
  }                                                                                                                        \
  template <class T, int N> DEVICE lanes::Vec<T, N>& operator op##=(lanes::Vec<T, N>& a, lanes::Vec<T, N> b) { return a = a op b; }
RTX_VECTOR_OPERATOR(+)
RTX_VECTOR_OPERATOR(-)
RTX_VECTOR_OPERATOR(*)
RTX_VECTOR_OPERATOR(/)
RTX_VECTOR_OPERATOR(%)
RTX_VECTOR_OPERATOR(&)
RTX_VECTOR_OPERATOR(|)
RTX_VECTOR_OPERATOR(^)
RTX_VECTOR_OPERATOR(<<)
RTX_VECTOR_OPERATOR(>>)
#undef RTX_VECTOR_OPERATOR
#define RTX_VECTOR_COMPARISON(op)                                                                            \
  template <class T, int N> DEVICE mask<N> operator op(lanes::Vec<T, N> a, lanes::Vec<T, N> b) {             \
    return by_lane<mask<N>>([&](int l) { return a[l] op b[l] ? -1 : 0; });                                   \
  }                                                                                                          \
  template <class T, int N> DEVICE mask<N> operator op(lanes::Vec<T, N> a, lane_t<lanes::Vec<T, N>> b) {     \
    return by_lane<mask<N>>([&](int l) { return a[l] op b ? -1 : 0; });                                      \
  }
RTX_VECTOR_COMPARISON(==)
RTX_VECTOR_COMPARISON(!=)
RTX_VECTOR_COMPARISON(<)
RTX_VECTOR_COMPARISON(<=)
RTX_VECTOR_COMPARISON(>)
RTX_VECTOR_COMPARISON(>=)
#undef RTX_VECTOR_COMPARISON
template <class T, int N> DEVICE lanes::Vec<T, N> operator-(lanes::Vec<T, N> a) {
  return by_lane<lanes::Vec<T, N>>([&](int l) { return T(-a[l]); });
}
template <class T, int N> DEVICE lanes::Vec<T, N> operator~(lanes::Vec<T, N> a) {
  return by_lane<lanes::Vec<T, N>>([&](int l) { return T(~a[l]); });
}

// mask ? a : b by lane.
template <class M, class V> DEVICE V select(M m, V a, V b) {
  if constexpr (lane_count<V> == 1) return m ? a : b;
  else return by_lane<V>([&](int l) { return m[l] ? a[l] : b[l]; });
}
template <class M> DEVICE auto as_bool(M m) {  // comparison result -> stored boolean
  if constexpr (lane_count<M> == 1) return u8(m ? 1 : 0);
  else return by_lane<vec<u8, lane_count<M>>>([&](int l) { return u8(m[l] ? 1 : 0); });
}
template <class V, class X> DEVICE V widen(X x) {  // a family's leaf may be a scalar or the vector itself
  if constexpr (lanes::same<V, X>) return x;
  else return splat<V>(lane_t<V>(x));
}
template <int W, class M> DEVICE mask<W> to_mask(M m) {
  if constexpr (W == 1) return bool(m);
  else if constexpr (lane_count<M> == 1) return splat<mask<W>>(m ? -1 : 0);
  else return by_lane<mask<W>>([&](int l) { return m[l] != 0 ? -1 : 0; });
}
// base, base + step, ...
template <class V> DEVICE V ramp(lane_t<V> base, lane_t<V> step) {
  if constexpr (lane_count<V> == 1) return base;
  else return by_lane<V>([&](int l) { return lane_t<V>(base + lane_t<V>(l) * step); });
}

// ---- conversions --------------------------------------------------------------------------------------------------------------------
namespace lanes {
// f64 -> f32 rounded to odd: a second rounding to f16 or bf16 then gives the correctly rounded result of the f64.
DEVICE f32 narrow_to_odd(f64 x) {
  const f32 near = f32(x);
  const f64 back = near;
  if (back == x || x != x) return near;
  i32 code = __builtin_bit_cast(i32, near);
  if (scalar::abs(back) > scalar::abs(x)) code -= 1;
  return __builtin_bit_cast(f32, code | 1);
}
template <class T, class S> DEVICE T converted(S x) {
  if constexpr (same<S, T>) {
    return x;
  } else if constexpr (half_storage<S>) {
    return converted<T>(to_f32(x));
  } else if constexpr (same<T, f16>) {
    if constexpr (same<S, f64>) return to_f16(narrow_to_odd(x));
    else return to_f16(f32(x));
  } else if constexpr (same<T, bf16>) {
    if constexpr (same<S, f64>) return to_bf16(narrow_to_odd(x));
    else return to_bf16(f32(x));
  } else if constexpr (floating<S> && !floating<T>) {
    constexpr T highest = T(-1) < T(0) ? T((u64(1) << (sizeof(T) * 8 - 1)) - 1) : T(-1);
    constexpr T lowest = T(-1) < T(0) ? T(-highest - 1) : T(0);
    constexpr S above = S(2) * S(u64(1) << (sizeof(T) * 8 - (T(-1) < T(0) ? 2 : 1)));  // highest + 1, exact
    if (x >= above) return highest;
    if (x < S(lowest)) return lowest;
    return x == x ? T(x) : T(0);
  } else {
    return T(x);
  }
}
}  // namespace lanes

// Between integers modulo 2^bits; floating to integer truncates, NaN gives 0, what does not fit the nearest end of the range.
template <class T, class W> DEVICE auto convert(W x) {
  if constexpr (lane_count<W> == 1) return lanes::converted<T>(x);
  else if constexpr (lanes::same<lane_t<W>, T>) return x;
  else return by_lane<with_lane<W, T>>([&](int l) { return lanes::converted<T>(x[l]); });
}

// ---- loads and stores: only the element's own alignment is assumed; whole accesses are made where the address allows them ------------
namespace lanes {
template <class T, int N> constexpr int access_bytes = sizeof(T) * N % 16 == 0 ? 16 : sizeof(T) * N % 8 == 0 ? 8 : sizeof(T) * N % 4 == 0 ? 4 : 0;
template <int B, int C> struct Pieces { Bytes<B> piece[C]; };
template <class T, int N> DEVICE Vec<T, N> read(const T* p) {
  constexpr int b = access_bytes<T, N>;
  if constexpr (b > int(sizeof(T))) {
    if ((reinterpret_cast<u64>(p) & u64(b - 1)) == 0) {
      Pieces<b, int(sizeof(T)) * N / b> pieces;
      UNROLL for (int k = 0; k < int(sizeof(T)) * N / b; ++k) pieces.piece[k] = load_bytes<b>(reinterpret_cast<const u8*>(p) + k * b);
      return __builtin_bit_cast(Vec<T, N>, pieces);
    }
  }
  Vec<T, N> r;
  UNROLL for (int l = 0; l < N; ++l) r[l] = p[l];
  return r;
}
template <class T, int N> DEVICE void write(T* p, Vec<T, N> x) {
  constexpr int b = access_bytes<T, N>;
  if constexpr (b > int(sizeof(T))) {
    if ((reinterpret_cast<u64>(p) & u64(b - 1)) == 0) {
      using PiecesOf = Pieces<b, int(sizeof(T)) * N / b>;
      const auto pieces = __builtin_bit_cast(PiecesOf, x);
      UNROLL for (int k = 0; k < int(sizeof(T)) * N / b; ++k) store_bytes<b>(reinterpret_cast<u8*>(p) + k * b, pieces.piece[k]);
      return;
    }
  }
  UNROLL for (int l = 0; l < N; ++l) p[l] = x[l];
}
}  // namespace lanes

template <class V, class S> DEVICE V load(const S* p) {
  if constexpr (lane_count<V> == 1) return lanes::converted<V>(*p);
  else return convert<lane_t<V>>(lanes::read<S, lane_count<V>>(p));
}
template <class T, int N, class S> DEVICE vec<T, N> load(const S* p) { return load<vec<T, N>>(p); }
template <class S, class V> DEVICE void store(S* p, V x) {
  if constexpr (lane_count<V> == 1) *p = lanes::converted<S>(x);
  else lanes::write<S, lane_count<V>>(p, convert<S>(x));
}
// Lane l from p[l * stride]; stride 0 broadcasts, any sign is right.
template <class V, class S> DEVICE V load_strided(const S* p, i64 stride) {
  return by_lane<V>([&](int l) { return load<lane_t<V>>(p + l * stride); });
}
template <class S, class V> DEVICE void store_strided(S* p, i64 stride, V x) {
  do_lanes<lane_count<V>>([&](int l) { store(p + l * stride, lane(x, l)); });
}
// Lane l from p[index[l]].
template <class V, class S, class I> DEVICE V gather(const S* p, I index) {
  return by_lane<V>([&](int l) { return load<lane_t<V>>(p + lane(index, l)); });
}

// ---- mathematics --------------------------------------------------------------------------------------------------------------------
namespace math {
template <class V, class F> DEVICE V each(V x, F f) {
  if constexpr (lane_count<V> == 1) return f(x);
  else return by_lane<V>([&](int l) { return f(x[l]); });
}
template <class V, class F> DEVICE V each(V x, V y, F f) {
  if constexpr (lane_count<V> == 1) return f(x, y);
  else return by_lane<V>([&](int l) { return f(x[l], y[l]); });
}

// a * b + c rounded once.
template <class V> DEVICE V fma(V a, V b, V c) {
  if constexpr (!lanes::floating<lane_t<V>>) return a * b + c;
  else if constexpr (lane_count<V> == 1) return scalar::fma(a, b, c);
  else return by_lane<V>([&](int l) { return scalar::fma(a[l], b[l], c[l]); });
}
#define RTX_LIFT(name) \
  template <class V> DEVICE V name(V x) { return each(x, [](lane_t<V> a) { return scalar::name(a); }); }
RTX_LIFT(exp2)
RTX_LIFT(expm1)
RTX_LIFT(log)
RTX_LIFT(log1p)
RTX_LIFT(erf)
RTX_LIFT(erfc)
RTX_LIFT(tanh)
RTX_LIFT(sqrt)
RTX_LIFT(rsqrt)
RTX_LIFT(rint)
RTX_LIFT(floor)
RTX_LIFT(ceil)
#undef RTX_LIFT
namespace detail {
// e^x of f32 to 1 ulp, where a vendor's function may have 2: e^r - 1 is a polynomial (minimax of degree 6 on |r| <= ln(2) / 2), and the
// power of two comes in two exact factors, so that overflow and subnormal results round once.
DEVICE f32 exp_f32(f32 x) {
  x = x > 89.f ? 89.f : x;
  x = x < -104.f ? -104.f : x;  // NaN passes both
  const f32 shifted = scalar::fma(x, 1.44269504088896341f, 12582912.f);  // the nearest integer in the low bits
  const f32 n = shifted - 12582912.f;
  f32 r = scalar::fma(n, -0.693147182464599609375f, x);
  r = scalar::fma(n, 1.9046542121259335e-09f, r);
  f32 p = scalar::fma(0.0013814346385346317f, r, 0.0083687909659459343f);
  p = scalar::fma(p, r, 0.04166839670093571f);
  p = scalar::fma(p, r, 0.16666519994064246f);
  p = scalar::fma(p, r, 0.49999993400278255f);
  p = scalar::fma(r * r, p, r) + 1.f;
  const i32 e = __builtin_bit_cast(i32, shifted) - 0x4b400000, half = e >> 1;
  return p * __builtin_bit_cast(f32, (half + 127) << 23) * __builtin_bit_cast(f32, (e - half + 127) << 23);
}
}  // namespace detail
template <class V> DEVICE V exp(V x) {
  return each(x, [](lane_t<V> a) {
    if constexpr (lanes::same<lane_t<V>, f32>) return detail::exp_f32(a);
    else return scalar::exp(a);
  });
}
template <class V> DEVICE V exp_negative(V x) { return exp(x); }  // e^x for x <= 0
template <class V> DEVICE V reciprocal(V x) { return splat<V>(lane_t<V>(1)) / x; }
template <class V> DEVICE V abs(V x) {
  return each(x, [](lane_t<V> a) {
    using T = lane_t<V>;
    if constexpr (lanes::floating<T>) return scalar::abs(a);
    else if constexpr (T(-1) < T(0)) return a < T(0) ? T(T(0) - a) : a;
    else return a;
  });
}
// NaN in either operand stays NaN (ONNX Max, Min, Relu, Clip, ReduceMax).
template <class V> DEVICE V max(V a, V b) {
  return each(a, b, [](lane_t<V> x, lane_t<V> y) { return x > y || x != x ? x : y; });
}
template <class V> DEVICE V min(V a, V b) {
  return each(a, b, [](lane_t<V> x, lane_t<V> y) { return x < y || x != x ? x : y; });
}
template <class V> DEVICE V relu(V x) {
  return each(x, [](lane_t<V> a) { return a < lane_t<V>(0) ? lane_t<V>(0) : a; });
}
template <class V> DEVICE V sigmoid(V x) {
  return each(x, [](lane_t<V> a) {
    using T = lane_t<V>;
    const T e = scalar::exp(T(0) - scalar::abs(a));
    return (a < T(0) ? e : T(1)) / (T(1) + e);
  });
}
template <class V> DEVICE V silu(V x) { return x * sigmoid(x); }
// x Phi(x) through erfc: nothing cancels in the lower tail.
template <class V> DEVICE V gelu_erf(V x) {
  return each(x, [](lane_t<V> a) {
    using T = lane_t<V>;
    return a * T(0.5) * scalar::erfc(a * T(-0.70710678118654752440));
  });
}
// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as x sigmoid(2 u)
template <class V> DEVICE V gelu_tanh(V x) {
  using T = lane_t<V>;
  const V u = x * fma(V(x * x), splat<V>(T(0.07135481627260025)), splat<V>(T(1.5957691216057308)));
  return x * sigmoid(u);
}
template <class V> DEVICE V pow(V x, V y) {
  return each(x, y, [](lane_t<V> base, lane_t<V> e) {
    using T = lane_t<V>;
    if constexpr (lanes::floating<T>) {
      return scalar::pow(base, e);
    } else {  // negative powers: 0, except of 1 and -1
      u64 result = 1, square = u64(base);
      if (e < T(0)) return T(base == T(1) ? T(1) : base == T(-1) ? ((e & T(1)) != T(0) ? T(-1) : T(1)) : T(0));
      for (u64 k = u64(e); k != 0; k >>= 1, square *= square) result *= (k & 1) != 0 ? square : 1;
      return T(result);
    }
  });
}
// Truncated quotient; of integers by zero 0, the lowest number over -1 stays itself: no operand traps.
template <class V> DEVICE V div(V a, V b) {
  return each(a, b, [](lane_t<V> x, lane_t<V> y) {
    using T = lane_t<V>;
    if constexpr (!lanes::floating<T>) {
      if (y == T(0)) return T(0);
      if (T(-1) < T(0) && y == T(-1)) return T(u64(0) - u64(x));
    }
    return T(x / y);
  });
}
template <class V> DEVICE V mod_trunc(V a, V b) {  // sign of the dividend: C fmod and %
  return each(a, b, [](lane_t<V> x, lane_t<V> y) {
    using T = lane_t<V>;
    if constexpr (lanes::floating<T>) return scalar::fmod(x, y);
    else return y == T(0) || (T(-1) < T(0) && y == T(-1)) ? T(0) : T(x % y);
  });
}
template <class V> DEVICE V mod_floor(V a, V b) {  // sign of the divisor
  return each(a, b, [](lane_t<V> x, lane_t<V> y) {
    using T = lane_t<V>;
    const T r = mod_trunc(x, y);
    return r != T(0) && (r < T(0)) != (y < T(0)) ? T(r + y) : r;
  });
}
template <class V, class F> DEVICE lane_t<V> reduce(V x, F f) {  // of one thread's lanes: halves are combined until one is left
  if constexpr (lane_count<V> == 1) {
    return x;
  } else {
    constexpr int half = lane_count<V> / 2;
    return reduce(by_lane<vec<lane_t<V>, half>>([&](int l) { return f(x[l], x[l + half]); }), f);
  }
}
template <class V> DEVICE lane_t<V> reduce_sum(V x) {
  return reduce(x, [](lane_t<V> a, lane_t<V> b) { return lane_t<V>(a + b); });
}
template <class V> DEVICE lane_t<V> reduce_max(V x) {
  return reduce(x, [](lane_t<V> a, lane_t<V> b) { return max(a, b); });
}
template <class V> DEVICE lane_t<V> reduce_min(V x) {
  return reduce(x, [](lane_t<V> a, lane_t<V> b) { return min(a, b); });
}
}  // namespace math

// ---- over threads: one fixed tree, the same bits in every thread ------------------------------------------------------------------------
struct Sum {
  template <class T> DEVICE T operator()(T a, T b) const { return T(a + b); }
};
struct Greatest {
  template <class T> DEVICE T operator()(T a, T b) const { return math::max(a, b); }
};
struct Least {
  template <class T> DEVICE T operator()(T a, T b) const { return math::min(a, b); }
};
// Of `WIDTH` neighbouring lanes (a power of two up to WAVE); f is commutative, and every lane of them gets the result.
template <int WIDTH = WAVE, class T, class F> DEVICE T wave_reduce(T x, F f) {
  UNROLL for (int by = WIDTH / 2; by > 0; by /= 2) {
    if constexpr (sizeof(T) < 4) x = f(x, T(shuffle_xor(i32(x), by)));  // shuffles move 4 or 8 bytes
    else x = f(x, shuffle_xor(x, by));
  }
  return x;
}
// Of all THREADS (whole waves) of the group. `places`: WAVE of T in scratch. Begins and ends with a barrier where there are several waves.
template <int THREADS, class T, class F> DEVICE T group_reduce(T x, F f, T* places) {
  constexpr int waves = THREADS / WAVE;
  x = wave_reduce(x, f);
  if constexpr (waves > 1) {
    barrier();
    if (wave_lane() == 0) places[thread() / WAVE] = x;
    barrier();
    T total = places[0];
    UNROLL for (int w = 1; w < waves; ++w) total = f(total, places[w]);
    x = total;
  }
  return x;
}
// A team: TEAM threads that share a row: a wave, or (more than WAVE) the whole group.
template <int TEAM> DEVICE void team_barrier() {
  if constexpr (TEAM <= WAVE) wave_barrier();
  else barrier();
}
template <int TEAM> DEVICE int team_lane() { return TEAM <= WAVE ? thread() % TEAM : thread(); }
template <int TEAM, class T, class F> DEVICE T team_reduce(T x, F f, void* places) {
  if constexpr (TEAM <= WAVE) return wave_reduce<TEAM>(x, f);
  else return group_reduce<TEAM>(x, f, static_cast<T*>(places));
}

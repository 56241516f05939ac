#pragma once
// The text every emitted CPU kernel starts with: element types, vectors, conversions, mathematics, the kernel entry.
// It includes nothing, so that a whole emitted file compiles in about 0.2 s. g++ 12 and clang 14, any target with GNU vectors;
// fast paths for AVX2+FMA+F16C and AVX-512F. Compile with -ffp-contract=off -fno-math-errno -fno-trapping-math, never -ffast-math.
//
// Every function is written once for a scalar and for vec<T, N> with the same operations in the same order, so that the scalar
// tail of a loop and its vector body agree bit for bit.
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are only passed between inlined functions

// ---- names shared by all dialects -------------------------------------------------------------------------------------------
#define DEVICE __attribute__((always_inline)) inline
#define RESTRICT __restrict
// One entry = the groups [group_begin, group_end) of a launch on one thread. `scratch` is private to the thread, aligned to 64.
#define KERNEL(name)                                                                                       \
  extern "C" __attribute__((visibility("default"))) void name([[maybe_unused]] void* const* args,          \
                                                              [[maybe_unused]] i64 group_begin,            \
                                                              [[maybe_unused]] i64 group_end,              \
                                                              [[maybe_unused]] void* scratch)
#define GROUP_LOOP(g) for (i64 g = group_begin; g < group_end; ++g)
#define ARG(type, index) static_cast<type*>(args[index])

using i8 = __INT8_TYPE__;
using i16 = __INT16_TYPE__;
using i32 = __INT32_TYPE__;
using i64 = __INT64_TYPE__;
using u8 = __UINT8_TYPE__;
using u16 = __UINT16_TYPE__;
using u32 = __UINT32_TYPE__;
using u64 = __UINT64_TYPE__;
using f32 = float;
using f64 = double;
struct f16 { u16 bits; };   // storage only: arithmetic is in f32
struct bf16 { u16 bits; };  // storage only
using boolean = u8;         // 0 or 1

#if defined(__AVX512F__)
constexpr int VEC = 16;  // preferred f32 lanes
#elif defined(__AVX2__)
constexpr int VEC = 8;
#else
constexpr int VEC = 4;
#endif

// ---- vectors ----------------------------------------------------------------------------------------------------------------
namespace lanes {
template <class T, int N> struct VecOf { typedef T type __attribute__((vector_size(sizeof(T) * N))); };
template <class T> struct VecOf<T, 1> { using type = T; };
template <class T> struct Bare { using type = T; };
template <class T> struct Bare<T&> { using type = T; };
template <class T> struct Bare<const T> { using type = T; };
template <class T> struct Bare<const T&> { using type = T; };
template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;
template <class V> V& lvalue();
template <class V> struct Of { using type = typename Bare<decltype(lvalue<V>()[0])>::type; };
template <class T> struct ScalarOf { using type = T; };
template <> struct Of<f32> : ScalarOf<f32> {};
template <> struct Of<f64> : ScalarOf<f64> {};
template <> struct Of<i8> : ScalarOf<i8> {};
template <> struct Of<i16> : ScalarOf<i16> {};
template <> struct Of<i32> : ScalarOf<i32> {};
template <> struct Of<i64> : ScalarOf<i64> {};
template <> struct Of<u8> : ScalarOf<u8> {};
template <> struct Of<u16> : ScalarOf<u16> {};
template <> struct Of<u32> : ScalarOf<u32> {};
template <> struct Of<u64> : ScalarOf<u64> {};
template <> struct Of<bool> : ScalarOf<bool> {};
template <int Bytes> struct IntOf;
template <> struct IntOf<1> { using type = i8; };
template <> struct IntOf<2> { using type = i16; };
template <> struct IntOf<4> { using type = i32; };
template <> struct IntOf<8> { using type = i64; };
template <class T> constexpr bool floating = same<T, f32> || same<T, f64>;
template <class T> constexpr bool half_storage = same<T, f16> || same<T, bf16>;
}  // namespace lanes

template <class T, int N> using vec = typename lanes::VecOf<T, N>::type;  // vec<T, 1> is T itself
template <class V> using lane_t = typename lanes::Of<V>::type;
template <class V> constexpr int lane_count = sizeof(V) / sizeof(lane_t<V>);
template <class V, class T> using with_lane = vec<T, lane_count<V>>;  // V with another element type

template <class V> DEVICE V splat(lane_t<V> x) {
  if constexpr (lane_count<V> == 1) return x;
  else return x - V{};  // x - 0 keeps -0, x + 0 would not
}

template <class V> struct Halves { vec<lane_t<V>, lane_count<V> / 2> low, high; };
template <class V> DEVICE Halves<V> halves(V v) { return __builtin_bit_cast(Halves<V>, v); }
template <class V, class H> DEVICE V join(H low, H high) { return __builtin_bit_cast(V, Halves<V>{low, high}); }

template <class V> DEVICE with_lane<V, typename lanes::IntOf<sizeof(lane_t<V>)>::type> bits(V x) {
  return __builtin_bit_cast(with_lane<V, typename lanes::IntOf<sizeof(lane_t<V>)>::type>, x);
}
template <class V, class I> DEVICE V from_bits(I x) { return __builtin_bit_cast(V, x); }

// mask ? a : b by lane. The mask is what a comparison gives: bool for scalars, a vector of 0 / -1 of any element width.
template <class M, class V> DEVICE V select(M mask, V a, V b) {
  if constexpr (lane_count<V> == 1) {
    return mask ? a : b;
  } else {
    using I = with_lane<V, typename lanes::IntOf<sizeof(lane_t<V>)>::type>;
    if constexpr (sizeof(M) == sizeof(V)) return __builtin_bit_cast(I, mask) ? a : b;
    else return __builtin_convertvector(mask, I) ? a : b;
  }
}
template <class M> DEVICE auto as_bool(M mask) {  // comparison result -> stored boolean
  if constexpr (lane_count<M> == 1) return u8(mask ? 1 : 0);
  else return __builtin_convertvector(mask, vec<i8, lane_count<M>>) == 0 ? vec<u8, lane_count<M>>{} : splat<vec<u8, lane_count<M>>>(1);
}

// ---- conversions ------------------------------------------------------------------------------------------------------------
namespace lanes {
// f16 bits -> f32, exact. Shifting the 15 magnitude bits and multiplying by 2^112 also normalises subnormals.
template <class V> DEVICE V from_f16_bits(with_lane<V, u16> h) {
  constexpr int n = lane_count<V>;
#if defined(__F16C__)
  if constexpr (n == 1) return __builtin_ia32_vcvtph2ps(vec<i16, 8>{i16(h)})[0];
  if constexpr (n == 8) return __builtin_ia32_vcvtph2ps256(bits(h));
#endif
#if defined(__AVX512F__)
  if constexpr (n == 16) return __builtin_ia32_vcvtph2ps512_mask(bits(h), V{}, -1, 4);
#endif
  if constexpr (n > 8) {
    auto parts = halves(h);
    using H = vec<f32, n / 2>;
    return join<V>(from_f16_bits<H>(parts.low), from_f16_bits<H>(parts.high));
  } else {
    using U = with_lane<V, u32>;
    U wide;
    if constexpr (n == 1) wide = h;
    else wide = __builtin_convertvector(h, U);
    U magnitude = (wide & 0x7fffu) << 13;
    U number = from_bits<U>(from_bits<V>(magnitude) * splat<V>(0x1p112f));
    U special = magnitude | 0x7f800000u;
    return from_bits<V>(select(magnitude >= 0x0f800000u, special, number) | ((wide & 0x8000u) << 16));
  }
}

// f32 -> f16 bits, round to nearest even. Below 2^-14 the addition of a power of two does the rounding at the right bit.
template <class V> DEVICE with_lane<V, u16> to_f16_bits(V x) {
  constexpr int n = lane_count<V>;
  using H = with_lane<V, u16>;
#if defined(__F16C__)
  if constexpr (n == 1) return u16(__builtin_ia32_vcvtps2ph(vec<f32, 4>{x}, 0)[0]);
  if constexpr (n == 8) return from_bits<H>(__builtin_ia32_vcvtps2ph256(x, 0));
#endif
#if defined(__AVX512F__)
  if constexpr (n == 16) return from_bits<H>(__builtin_ia32_vcvtps2ph512_mask(x, 0, vec<i16, 16>{}, -1));
#endif
  if constexpr (n > 8) {
    auto parts = halves(x);
    return join<H>(to_f16_bits(parts.low), to_f16_bits(parts.high));
  } else {
    using U = with_lane<V, u32>;
    U all = from_bits<U>(x);
    U sign = (all >> 16) & 0x8000u;
    U magnitude = all & 0x7fffffffu;
    U normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    U small = from_bits<U>(from_bits<V>(magnitude) + splat<V>(0.5f)) - 0x3f000000u;
    U result = select(magnitude < 0x38800000u, small, normal);
    result = select(magnitude >= 0x477ff000u, splat<U>(0x7c00u), result);
    result = select(magnitude > 0x7f800000u, splat<U>(0x7e00u), result);
    result |= sign;
    if constexpr (n == 1) return u16(result);
    else return __builtin_convertvector(result, H);
  }
}

template <class V> DEVICE V from_bf16_bits(with_lane<V, u16> h) {
  using U = with_lane<V, u32>;
  if constexpr (lane_count<V> == 1) return from_bits<V>(U(h) << 16);
  else return from_bits<V>(__builtin_convertvector(h, U) << 16);
}

template <class V> DEVICE with_lane<V, u16> to_bf16_bits(V x) {
  using U = with_lane<V, u32>;
  U all = from_bits<U>(x);
  U rounded = (all + 0x7fffu + ((all >> 16) & 1u)) >> 16;
  rounded = select((all & 0x7fffffffu) > 0x7f800000u, (all >> 16) | 0x40u, rounded);
  if constexpr (lane_count<V> == 1) return u16(rounded);
  else return __builtin_convertvector(rounded, with_lane<V, u16>);
}

// f64 -> f32 rounded to odd: a second rounding to f16 or bf16 then gives the correctly rounded result of the f64.
template <class V> DEVICE with_lane<V, f32> narrow_to_odd(V x) {
  using F = with_lane<V, f32>;
  using I = with_lane<V, i32>;
  F near;
  V back;
  if constexpr (lane_count<V> == 1) { near = f32(x); back = near; }
  else { near = __builtin_convertvector(x, F); back = __builtin_convertvector(near, V); }
  V size_back = from_bits<V>(bits(back) & 0x7fffffffffffffff), size_x = from_bits<V>(bits(x) & 0x7fffffffffffffff);
  I code = bits(near);
  code = select(size_back > size_x, code - 1, code);
  return from_bits<F>(select(back != x && x == x, code | 1, code));
}
}  // namespace lanes

// To element type T with the lanes of W. Between integers: modulo 2^bits. Floating to integer: truncates; NaN gives 0, what
// does not fit gives the nearest end of the range. To a boolean write as_bool(x != 0).
template <class T, class W> DEVICE auto convert(W x) {
  using S = lane_t<W>;
  using R = with_lane<W, T>;
  if constexpr (lanes::same<S, T>) {
    return x;
  } else if constexpr (lanes::floating<S> && !lanes::floating<T>) {
    constexpr T highest = T(-1) < T(0) ? T((u64(1) << (sizeof(T) * 8 - 1)) - 1) : T(-1);
    constexpr T lowest = T(-1) < T(0) ? T(-highest - 1) : T(0);
    constexpr S above = S(2) * S(u64(1) << (sizeof(T) * 8 - (T(-1) < T(0) ? 2 : 1)));  // highest + 1, exact
    auto too_high = x >= above;
    auto too_low = x < S(lowest);
    auto fits = (x >= S(lowest)) & (x < above);
    R whole;
    if constexpr (lane_count<W> == 1) whole = T(select(fits, x, S(0)));
    else whole = __builtin_convertvector(select(fits, x, W{}), R);
    return select(too_high, splat<R>(highest), select(too_low, splat<R>(lowest), whole));
  } else if constexpr (lane_count<W> == 1) {
    return T(x);
  } else {
    return __builtin_convertvector(x, R);
  }
}

// Loads lane_count<V> neighbours of any storage type into V; only the element's own alignment is assumed.
template <class V, class S> DEVICE V load(const S* p) {
  constexpr int n = lane_count<V>;
  if constexpr (lanes::half_storage<S>) {
    vec<u16, n> raw;
    __builtin_memcpy(&raw, p, sizeof raw);
    if constexpr (lanes::same<S, f16>) return convert<lane_t<V>>(lanes::from_f16_bits<vec<f32, n>>(raw));
    else return convert<lane_t<V>>(lanes::from_bf16_bits<vec<f32, n>>(raw));
  } else {
    vec<S, n> raw;
    __builtin_memcpy(&raw, p, sizeof raw);
    return convert<lane_t<V>>(raw);
  }
}
template <class T, int N, class S> DEVICE vec<T, N> load(const S* p) { return load<vec<T, N>>(p); }
template <class S, class V> DEVICE void store(S* p, V x) {
  if constexpr (lanes::half_storage<S>) {
    with_lane<V, u16> raw;
    with_lane<V, f32> single;
    if constexpr (lanes::same<lane_t<V>, f32>) single = x;
    else single = lanes::narrow_to_odd(convert<f64>(x));
    if constexpr (lanes::same<S, f16>) raw = lanes::to_f16_bits(single);
    else raw = lanes::to_bf16_bits(single);
    __builtin_memcpy(p, &raw, sizeof raw);
  } else {
    auto raw = convert<S>(x);
    __builtin_memcpy(p, &raw, sizeof raw);
  }
}
// Lane l from p[l * stride]; stride 0 broadcasts, any sign is right.
template <class V, class S> DEVICE V load_strided(const S* p, i64 stride) {
  if constexpr (lane_count<V> == 1) {
    return load<V>(p);
  } else {
    V result;
    for (int l = 0; l < lane_count<V>; ++l) result[l] = load<lane_t<V>>(p + l * stride);
    return result;
  }
}
template <class S, class V> DEVICE void store_strided(S* p, i64 stride, V x) {
  if constexpr (lane_count<V> == 1) store(p, x);
  else for (int l = 0; l < lane_count<V>; ++l) store(p + l * stride, lane_t<V>(x[l]));
}
// Lane l from p[index[l]].
template <class V, class S, class I> DEVICE V gather(const S* p, I index) {
  if constexpr (lane_count<V> == 1) {
    return load<V>(p + index);
  } else {
    V result;
    for (int l = 0; l < lane_count<V>; ++l) result[l] = load<lane_t<V>>(p + index[l]);
    return result;
  }
}

// ---- mathematics ------------------------------------------------------------------------------------------------------------
namespace math {
template <class V> constexpr bool is_f64 = lanes::same<lane_t<V>, f64>;

template <class V, class F> DEVICE V each(V x, F f) {  // lane by lane, for what has no vector form
  if constexpr (lane_count<V> == 1) {
    return f(x);
  } else {
    V result;
    for (int l = 0; l < lane_count<V>; ++l) result[l] = f(lane_t<V>(x[l]));
    return result;
  }
}
template <class V, class F> DEVICE V each(V x, V y, F f) {
  if constexpr (lane_count<V> == 1) {
    return f(x, y);
  } else {
    V result;
    for (int l = 0; l < lane_count<V>; ++l) result[l] = f(lane_t<V>(x[l]), lane_t<V>(y[l]));
    return result;
  }
}

// a * b + c rounded once.
template <class V> DEVICE V fma(V a, V b, V c) {
  using T = lane_t<V>;
  [[maybe_unused]] constexpr int n = lane_count<V>;
  if constexpr (lanes::same<V, f32>) {
    return __builtin_fmaf(a, b, c);
  } else if constexpr (lanes::same<V, f64>) {
    return __builtin_fma(a, b, c);
  } else if constexpr (!lanes::floating<T>) {
    return a * b + c;
  } else {
#if defined(__AVX512F__)
    if constexpr (lanes::same<T, f32> && n == 16) return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
    if constexpr (lanes::same<T, f64> && n == 8) return __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4);
#endif
#if defined(__FMA__)
    if constexpr (lanes::same<T, f32> && n == 8) return __builtin_ia32_vfmaddps256(a, b, c);
    if constexpr (lanes::same<T, f32> && n == 4) return __builtin_ia32_vfmaddps(a, b, c);
    if constexpr (lanes::same<T, f64> && n == 4) return __builtin_ia32_vfmaddpd256(a, b, c);
    if constexpr (lanes::same<T, f64> && n == 2) return __builtin_ia32_vfmaddpd(a, b, c);
#endif
    if constexpr (sizeof(V) > 16) {
      auto x = halves(a), y = halves(b), z = halves(c);
      return join<V>(fma(x.low, y.low, z.low), fma(x.high, y.high, z.high));
    } else {
      V result;
      for (int l = 0; l < n; ++l) result[l] = fma(T(a[l]), T(b[l]), T(c[l]));
      return result;
    }
  }
}

template <class V> DEVICE V sqrt(V x) {
  using T = lane_t<V>;
  [[maybe_unused]] constexpr int n = lane_count<V>;
  if constexpr (lanes::same<V, f32>) {
    return __builtin_sqrtf(x);
  } else if constexpr (lanes::same<V, f64>) {
    return __builtin_sqrt(x);
  } else {
#if defined(__AVX512F__) && defined(__clang__)
    if constexpr (lanes::same<T, f32> && n == 16) return __builtin_ia32_sqrtps512(x, 4);
    if constexpr (lanes::same<T, f64> && n == 8) return __builtin_ia32_sqrtpd512(x, 4);
#elif defined(__AVX512F__)
    if constexpr (lanes::same<T, f32> && n == 16) return __builtin_ia32_sqrtps512_mask(x, V{}, -1, 4);
    if constexpr (lanes::same<T, f64> && n == 8) return __builtin_ia32_sqrtpd512_mask(x, V{}, -1, 4);
#endif
#if defined(__AVX__)
    if constexpr (lanes::same<T, f32> && n == 8) return __builtin_ia32_sqrtps256(x);
    if constexpr (lanes::same<T, f64> && n == 4) return __builtin_ia32_sqrtpd256(x);
#endif
    if constexpr (sizeof(V) > 16) {
      auto parts = halves(x);
      return join<V>(sqrt(parts.low), sqrt(parts.high));
    } else {
      return each(x, [](T a) { return sqrt(a); });
    }
  }
}
template <class V> DEVICE V rsqrt(V x) { return splat<V>(1) / sqrt(x); }  // both roundings, no approximation
template <class V> DEVICE V reciprocal(V x) { return splat<V>(1) / x; }

// NaN in either operand stays NaN (ONNX Max, Min, Relu, Clip, ReduceMax).
template <class V> DEVICE V max(V a, V b) {
  if constexpr (lanes::floating<lane_t<V>>) return select((a > b) | (a != a), a, b);
  else return select(a > b, a, b);
}
template <class V> DEVICE V min(V a, V b) {
  if constexpr (lanes::floating<lane_t<V>>) return select((a < b) | (a != a), a, b);
  else return select(a < b, a, b);
}

// a < b ? a : b and a > b ? a : b: b where the two are equal or one is NaN. One instruction on x86, where a compiler makes two of the
// comparison with AVX-512.
template <class V> DEVICE V lesser(V a, V b) {
  [[maybe_unused]] constexpr int n = lane_count<V>;
  if constexpr (lanes::same<lane_t<V>, f32>) {
#if defined(__AVX512F__) && defined(__clang__)
    if constexpr (n == 16) return __builtin_ia32_minps512(a, b, 4);
#elif defined(__AVX512F__)
    if constexpr (n == 16) return __builtin_ia32_minps512_mask(a, b, V{}, -1, 4);
#endif
#if defined(__AVX__)
    if constexpr (n == 8) return __builtin_ia32_minps256(a, b);
#endif
  }
  return select(a < b, a, b);
}
template <class V> DEVICE V greater(V a, V b) {
  [[maybe_unused]] constexpr int n = lane_count<V>;
  if constexpr (lanes::same<lane_t<V>, f32>) {
#if defined(__AVX512F__) && defined(__clang__)
    if constexpr (n == 16) return __builtin_ia32_maxps512(a, b, 4);
#elif defined(__AVX512F__)
    if constexpr (n == 16) return __builtin_ia32_maxps512_mask(a, b, V{}, -1, 4);
#endif
#if defined(__AVX__)
    if constexpr (n == 8) return __builtin_ia32_maxps256(a, b);
#endif
  }
  return select(a > b, a, b);
}
template <class V> DEVICE V relu(V x) { return select(x < 0, V{}, x); }

template <class V> DEVICE V abs(V x) {
  using T = lane_t<V>;
  if constexpr (lanes::same<T, f32>) return from_bits<V>(bits(x) & 0x7fffffff);
  else if constexpr (lanes::same<T, f64>) return from_bits<V>(bits(x) & 0x7fffffffffffffff);
  else if constexpr (T(-1) < T(0)) return select(x < 0, V(V{} - x), x);
  else return x;
}
template <class V> DEVICE V copysign(V size, V sign) {
  constexpr auto top = is_f64<V> ? i64(u64(1) << 63) : i64(i32(0x80000000u));
  using I = lane_t<decltype(bits(size))>;
  return from_bits<V>((bits(size) & ~I(top)) | (bits(sign) & I(top)));
}
// Nearest even. Adding and subtracting 2^23 (2^52) rounds at the units bit; larger numbers are whole already.
template <class V> DEVICE V rint(V x) {
  V a = abs(x);
  V big = splat<V>(is_f64<V> ? lane_t<V>(0x1p52) : lane_t<V>(0x1p23));
  return select(a < big, copysign(V((a + big) - big), x), x);
}
template <class V> DEVICE V floor(V x) {
  V r = rint(x);
  return select(r > x, V(r - 1), r);
}
template <class V> DEVICE V ceil(V x) {
  V r = rint(x);
  return copysign(select(r < x, V(r + 1), r), x);
}

// c0 + x (c1 + x (c2 + ...))
template <class V> DEVICE V polynomial(V, lane_t<V> c) { return splat<V>(c); }
template <class V, class... C> DEVICE V polynomial(V x, lane_t<V> c, C... more) {
  return fma(polynomial(x, lane_t<V>(more)...), x, splat<V>(c));
}

namespace detail {
// Splits x log2(e) into whole part n (as the low bits of `shifted`) and e^r - 1, |r| <= ln(2) / 2.
template <class V> struct ExpParts { with_lane<V, i32> n; V r_minus; };
constexpr f32 shifter = 12582912.f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
template <class V> DEVICE V exp_tail(V r) {  // e^r - 1 near 0, minimax of degree 6, 0.05 ulp
  V p = polynomial(r, 0.49999993400278255f, 0.16666519994064246f, 0.04166839670093571f, 0.0083687909659459343f, 0.0013814346385346317f);
  return fma(V(r * r), p, r);
}
template <class V> DEVICE ExpParts<V> exp_parts(V x) {
  V shifted = fma(x, splat<V>(1.44269504088896341f), splat<V>(shifter));
  V n = shifted - shifter;
  V r = fma(n, splat<V>(-0x1.62e43p-1f), x);
  r = fma(n, splat<V>(0x1.05c61p-29f), r);
  return {bits(shifted) - 0x4b400000, exp_tail(r)};
}
template <class V> DEVICE V power_of_two(with_lane<V, i32> n) {
  using U = with_lane<V, u32>;
  return from_bits<V>((from_bits<U>(n) + 127u) << 23);
}
// 2^n (1 + tail): in two exact factors, so that overflow and subnormal results round once.
template <class V> DEVICE V scale(V p, with_lane<V, i32> n) {
  with_lane<V, i32> half = n >> 1;
  return p * power_of_two<V>(half) * power_of_two<V>(n - half);
}
template <class V> DEVICE V clamp(V x, f32 low, f32 high) {  // NaN passes
  x = select(x > high, splat<V>(high), x);
  return select(x < low, splat<V>(low), x);
}
}  // namespace detail

template <class V> DEVICE V exp(V x) {
  if constexpr (is_f64<V>) {
    return each(x, [](f64 a) { return __builtin_exp(a); });
  } else {
    auto parts = detail::exp_parts(detail::clamp(x, -104.f, 89.f));
    return detail::scale(V(parts.r_minus + 1.f), parts.n);
  }
}
// e^x for x <= 0 (softmax, sigmoid): one clamp and one power of two, which carries 2^64 so that it stays normal. Where the clamp holds that
// power is exactly 0, for a result that is only rounded to 0 takes a processor a hundred times as long, and masked scores all are.
template <class V> DEVICE V exp_negative(V x) {
  if constexpr (is_f64<V>) {
    return exp(x);
  } else {
    using U = with_lane<V, u32>;
    x = select(x < -132.4f, splat<V>(-132.4f), x);  // 2^-191
    V shifted = fma(x, splat<V>(1.44269504088896341f), splat<V>(detail::shifter));
    V n = shifted - detail::shifter;
    V r = fma(n, splat<V>(-0x1.62e43p-1f), x);
    r = fma(n, splat<V>(0x1.05c61p-29f), r);
    V power = from_bits<V>((from_bits<U>(shifted) << 23) + (191u << 23));
    return fma(power, detail::exp_tail(r), power) * 0x1p-64f;
  }
}
template <class V> DEVICE V exp2(V x) {
  if constexpr (is_f64<V>) {
    return each(x, [](f64 a) { return __builtin_exp2(a); });
  } else {
    x = detail::clamp(x, -151.f, 129.f);
    V shifted = x + detail::shifter;
    V r = x - (shifted - detail::shifter);
    return detail::scale(V(detail::exp_tail(V(r * 0.693147180559945309f)) + 1.f), with_lane<V, i32>(bits(shifted) - 0x4b400000));
  }
}
template <class V> DEVICE V expm1(V x) {
  if constexpr (is_f64<V>) {
    return each(x, [](f64 a) { return __builtin_expm1(a); });
  } else {
    auto parts = detail::exp_parts(detail::clamp(x, -104.f, 60.f));
    V power = detail::power_of_two<V>(parts.n);
    V result = select(x < -80.f, splat<V>(-1.f), fma(power, parts.r_minus, V(power - 1.f)));
    result = select(x == 0, x, result);  // keeps -0
    return select(x > 60.f, exp(x), result);
  }
}
template <class V> DEVICE V log(V x) {
  if constexpr (is_f64<V>) {
    return each(x, [](f64 a) { return __builtin_log(a); });
  } else {
    using I = with_lane<V, i32>;
    auto subnormal = x < 0x1p-126f;
    V scaled = select(subnormal, V(x * 0x1p23f), x);
    I code = bits(scaled) - 0x3f3504f3;  // sqrt(1/2): the mantissa then lies in [sqrt(1/2), sqrt(2))
    V e = convert<f32>(I(code >> 23)) - select(subnormal, splat<V>(23.f), V{});
    V f = from_bits<V>((code & 0x007fffff) + 0x3f3504f3) - 1.f;
    V p = polynomial(f, 0.3333333175755055f, -0.25000821557742619f, 0.20001221689404473f, -0.16623336543602796f, 0.14201868905401795f,
                     -0.13160490218806008f, 0.12760913912596392f, -0.076328599007596631f);
    V f2 = f * f;
    V y = fma(V(f2 * f), p, V(e * -2.12194440e-4f));
    y = fma(f2, splat<V>(-0.5f), y) + f;
    y = fma(e, splat<V>(0.693359375f), y);
    V outside = select(x == 0, splat<V>(-__builtin_inff()), splat<V>(__builtin_nanf("")));
    return select(x > 0, select(x < __builtin_inff(), y, x), outside);
  }
}
template <class V> DEVICE V log1p(V x) {
  if constexpr (is_f64<V>) {
    return each(x, [](f64 a) { return __builtin_log1p(a); });
  } else {
    V u = x + 1.f;
    V y = log(u) + select(u < __builtin_inff(), V((x - (u - 1.f)) / u), V{});  // what rounding 1 + x lost
    return select(abs(x) < 0x1p-24f, x, select(u == 0, splat<V>(-__builtin_inff()), y));
  }
}
template <class V> DEVICE V tanh(V x) {
  if constexpr (is_f64<V>) {
    return each(x, [](f64 a) { return __builtin_tanh(a); });
  } else {
    V a = abs(x), x2 = x * x;
    V p = polynomial(x2, -0.33333279505173445f, 0.13331372509231763f, -0.053733628203285948f, 0.020618426346649296f, -0.005681083816357609f);
    V large = 1.f - 2.f / (exp(V(a + a)) + 1.f);
    return select(a < 0.625f, fma(V(x * x2), p, x), copysign(large, x));
  }
}
namespace detail {
// erfc(a) e^(a^2) for 0 <= a <= 10.5: a polynomial in (a - 2) / (a + 2) over 1 + 2a, with one division.
template <class V> DEVICE V erfcx(V a) {
  V u = a + 2.f, w = fma(a, splat<V>(2.f), splat<V>(1.f));
  V inverse = 1.f / (u * w);
  V q = (a - 2.f) * w * inverse;
  V p = polynomial(q, 1.276978394392919f, -0.092763989719957096f, -0.16603149136397749f, 0.16405551208532659f, -0.054203524746176445f,
                   -0.008060451988924969f, 0.0086286939407060383f, 0.0013132187193408406f, -0.0012262684657290519f, -0.00039847141803402362f);
  return u * inverse * p;
}
// e^-(s + s_low) y
template <class V> DEVICE V exp_minus(V s, V s_low, V y) {
  y = fma(V(V{} - s_low), y, y);
  return exp(V(V{} - s)) * y;
}
}  // namespace detail
template <class V> DEVICE V erf(V x) {
  if constexpr (is_f64<V>) {
    return each(x, [](f64 a) { return __builtin_erf(a); });
  } else {
    V a = abs(x), x2 = x * x;
    V p = polynomial(x2, 0.12837916563180476f, -0.37612625060277905f, 0.11283575286681367f, -0.026853350635545534f, 0.0051873601430430022f,
                     -0.00080009047087986056f, 7.8206190064567366e-5f);
    V b = select(a > 10.f, splat<V>(10.f), a);
    V s = b * b;
    V large = 1.f - detail::exp_minus(s, fma(b, b, V(V{} - s)), detail::erfcx(b));
    return select(a < 1.f, fma(x, p, x), copysign(large, x));
  }
}
template <class V> DEVICE V sigmoid(V x) {
  V e = exp_negative(V(V{} - abs(x)));
  return select(x < 0, e, splat<V>(1)) / (1 + e);
}
template <class V> DEVICE V silu(V x) { return x * sigmoid(x); }
// x S(x) for a sigmoid-like S, as max(x, 0) - a S(-a) with a = |x|. What `root` holds is a polynomial of a close to a root of S(-a): the
// fourth (erf) or eighth (tanh). Such a root falls slowly, so few terms give it; squaring it twice or thrice keeps the sign, and the
// relative accuracy while the root is not small. Behind a = 7.5 the polynomial is negative down to -infinity (the sign of its last
// coefficient): cut off at 0, S(-a) is exactly 0 there. +infinity is cut off at a place where S(-a) is 0; at -infinity the result is
// infinity times 0, NaN, as the formula says. NaN passes. The difference is rounded once, also below the normal range.
namespace detail {
template <int Squarings, class V, class... C> DEVICE V gated_by_root(V x, C... root) {
  const V a = abs(lesser(splat<V>(30.f), x));
  V s = greater(V{}, polynomial(a, root...));
  for (int i = 0; i < Squarings; ++i) s *= s;
  return fma(V(-a), s, greater(V{}, x));
}
}  // namespace detail
// Error: at most 4 units in the last place + 2e-8; relative to the result 1e-6 to x = -2, 4e-5 to x = -4, nothing behind -6.
template <class V> DEVICE V gelu_erf(V x) {
  if constexpr (is_f64<V>) {
    return x * 0.5 * each(x, [](f64 a) { return __builtin_erfc(a * -0.70710678118654752440); });
  } else {
    return detail::gated_by_root<2>(x, 0.840896428f, -0.167735234f, -0.0501820371f, 0.0045776004f, 0.00395564688f, -0.000232305654f,
                                    -0.000163087563f, -6.24634094e-06f, 1.42511371e-05f, -2.81378652e-06f, 2.34348491e-07f,
                                    -7.50699503e-09f);
  }
}
// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). Error: as above, relative 1e-6 to x = -2, 5e-4 to x = -4, nothing behind -5.
template <class V> DEVICE V gelu_tanh(V x) {
  if constexpr (is_f64<V>) {
    return x * sigmoid(V(x * fma(V(x * x), splat<V>(0.07135481627260025), splat<V>(1.5957691216057308))));
  } else {
    return detail::gated_by_root<3>(x, 0.917004049f, -0.0914583877f, -0.031918034f, -0.000646754866f, 0.00169698347f,
                                    -0.000214142026f, 0.000174745292f, -0.000165842881f, 6.77633798e-05f, -1.40889624e-05f,
                                    1.49203265e-06f, -6.44934417e-08f);
  }
}

// C pow for all special values. f32 goes through f64 (a 1e-11 logarithm and exponential), so that the result is within 1 ulp.
template <class V> DEVICE V pow(V x, V y) {
  if constexpr (!lanes::floating<lane_t<V>>) {
    return each(x, y, [](lane_t<V> base, lane_t<V> e) {  // negative powers: 0, except of 1 and -1
      using T = lane_t<V>;
      u64 result = 1, square = u64(base);
      if (e < T(0)) return T(base == T(1) ? T(1) : base == T(-1) ? (e & 1 ? T(-1) : T(1)) : T(0));
      for (u64 k = u64(e); k != 0; k >>= 1, square *= square) result *= k & 1 ? square : 1;
      return T(result);
    });
  } else if constexpr (is_f64<V>) {
    return each(x, y, [](f64 a, f64 b) { return __builtin_pow(a, b); });
  } else {
    using D = with_lane<V, f64>;
    using L = with_lane<V, i64>;
    D base = convert<f64>(x), e = convert<f64>(y);
    D a = abs(base);
    L code = bits(a) - 0x3fe6a09e667f3bcd;
    D m = from_bits<D>((code & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd);
    D s = (m - 1) / (m + 1);
    D series = polynomial(D(s * s), 1., 1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13);
    D logarithm = fma(s, D(series * 2.88539008177792681472), convert<f64>(L(code >> 52)));
    constexpr f64 inf = __builtin_inf();
    logarithm = select(a == 0, splat<D>(-inf), select(a < inf, logarithm, a));  // NaN stays
    D t = select((e == 0) | (logarithm == 0), D{}, D(e * logarithm));
    t = select(t > 200, splat<D>(200), select(t < -200, splat<D>(-200), t));
    D shifted = t + 0x1.8p52;
    D r = (t - (shifted - 0x1.8p52)) * 0.693147180559945309417;
    D p = polynomial(r, 1., 1., 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880);
    using U = with_lane<V, u64>;
    D size = p * from_bits<D>((from_bits<U>(shifted) + 1023u) << 52);
    D half = e * 0.5;
    auto whole = rint(e) == e;
    auto odd = whole & (rint(half) != half);
    D result = select(odd, copysign(size, base), size);
    result = select((base < 0) & (base > -inf) & (rint(e) != e), splat<D>(__builtin_nan("")), result);
    return convert<f32>(select(e == 0, splat<D>(1), result));
  }
}

// ---- integers: no operand traps -----------------------------------------------------------------------------------------------
// Truncated quotient; division by zero gives 0, the lowest number over -1 stays itself.
template <class V> DEVICE V div(V a, V b) {
  if constexpr (lanes::floating<lane_t<V>>) {
    return a / b;
  } else {
    return each(a, b, [](lane_t<V> x, lane_t<V> y) {
      using T = lane_t<V>;
      if (y == T(0)) return T(0);
      if (T(-1) < T(0) && y == T(-1)) return T(u64(0) - u64(x));
      return T(x / y);
    });
  }
}
template <class V> DEVICE V mod_trunc(V a, V b) {  // sign of the dividend: C fmod and %
  using T = lane_t<V>;
  if constexpr (lanes::same<T, f32>) return each(a, b, [](f32 x, f32 y) { return __builtin_fmodf(x, y); });
  else if constexpr (lanes::same<T, f64>) return each(a, b, [](f64 x, f64 y) { return __builtin_fmod(x, y); });
  else return each(a, b, [](T x, T y) { return y == T(0) || (T(-1) < T(0) && y == T(-1)) ? T(0) : T(x % y); });
}
template <class V> DEVICE V mod_floor(V a, V b) {  // sign of the divisor
  V r = mod_trunc(a, b);
  return select((r != 0) & ((r < 0) != (b < 0)), V(r + b), r);
}

// ---- across lanes: halves are combined until one lane is left, (v[i] op v[i + n/2]), whatever the width of the machine ---------
template <class V, class F> DEVICE lane_t<V> reduce(V x, F f) {
  if constexpr (lane_count<V> == 1) {
    return x;
  } else {
    auto parts = halves(x);
    return reduce(f(parts.low, parts.high), f);
  }
}
template <class V> DEVICE lane_t<V> reduce_sum(V x) { return reduce(x, [](auto a, auto b) { return a + b; }); }
template <class V> DEVICE lane_t<V> reduce_max(V x) { return reduce(x, [](auto a, auto b) { return max(a, b); }); }
template <class V> DEVICE lane_t<V> reduce_min(V x) { return reduce(x, [](auto a, auto b) { return min(a, b); }); }
}  // namespace math

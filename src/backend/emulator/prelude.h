#pragma once
// The primitives of GPU kernels (docs/adr/0010) in C++ for the host: a thread is a fiber, what threads do together is a call of the
// device (prelude_abi.h). g++ 12 and clang 14, no header. `line` parameters are never given: they name the caller's line in messages.
#include "backend/emulator/prelude_abi.h"

#define DEVICE __attribute__((always_inline)) inline
#define RESTRICT __restrict
#define UNROLL
#define UNROLL_BY(n)

using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;
struct f16 { u16 bits; };   // storage; arithmetic is in f32
struct bf16 { u16 bits; };  // storage
using boolean = u8;         // 0 or 1

extern "C" __attribute__((visibility("default"))) const int rtx_emulation_version;
const int rtx_emulation_version = rtx_emulation::kVersion;

// An entry is a function that each thread runs, and a note beside it that the device finds as `name`_entry.
#define KERNEL(name, arguments, threads, per_core)                                                                 \
  static void name##_thread();                                                                                     \
  extern "C" __attribute__((visibility("default"))) const rtx_emulation::Entry name##_entry;                       \
  const rtx_emulation::Entry name##_entry = {name##_thread, arguments, threads, 0, 1, per_core};                   \
  static void name##_thread()
#define GROUP_LOOP(g) for (i64 g = group(), g##_once = 1; g##_once != 0; g##_once = 0)
#define ARG(type, index) static_cast<type*>(rtx_emulation::self().arguments[index])
#define scratch (rtx_emulation::self().scratch)

// ---- who am I ---------------------------------------------------------------------------------------------------------------
constexpr int WAVE = 32;
DEVICE int thread() { return rtx_emulation::self().thread; }
DEVICE int threads() { return rtx_emulation::self().threads; }
DEVICE i64 group() { return rtx_emulation::self().group; }
DEVICE i64 groups() { return rtx_emulation::self().groups; }
DEVICE int wave_lane() { return thread() % WAVE; }

// ---- together ---------------------------------------------------------------------------------------------------------------
namespace rtx_emulation {
DEVICE void together(Collective& mine) { self().hooks->collective(mine); }
template <class T> DEVICE T exchanged(T x, int from, int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
  Collective c{Collective::shuffle, line, from, 0, nullptr, nullptr, nullptr};
  __builtin_memcpy(&c.value, &x, sizeof x);
  together(c);
  __builtin_memcpy(&x, &c.value, sizeof x);
  return x;
}
DEVICE bool vote(Collective::Kind kind, bool b, int line) {
  Collective c{kind, line, b, 0, nullptr, nullptr, nullptr};
  together(c);
  return c.number != 0;
}
DEVICE void matrix(Collective::Kind kind, int tiles, const void* registers, const void* row, int line) {
  Collective c{kind, line, tiles, 0, const_cast<void*>(registers), const_cast<void*>(row), nullptr};
  together(c);
}
DEVICE void multiply(Collective::Kind kind, void* d, const void* a, const void* b, int line) {
  Collective c{kind, line, 0, 0, d, const_cast<void*>(a), const_cast<void*>(b)};
  together(c);
}
}  // namespace rtx_emulation

DEVICE void barrier(int line = __builtin_LINE()) { rtx_emulation::self().hooks->barrier(0, 0, line); }
DEVICE void barrier(int id, int count, int line = __builtin_LINE()) { rtx_emulation::self().hooks->barrier(id, count, line); }
DEVICE void wave_barrier(int line = __builtin_LINE()) {
  rtx_emulation::Collective c{rtx_emulation::Collective::barrier, line, 0, 0, nullptr, nullptr, nullptr};
  rtx_emulation::together(c);
}
template <class T> DEVICE T shuffle(T x, int from, int line = __builtin_LINE()) {
  return rtx_emulation::exchanged(x, from & (WAVE - 1), line);
}
DEVICE int wave(int line = __builtin_LINE()) { return shuffle(thread() / WAVE, 0, line); }  // as on a GPU: all lanes ask, or none comes back
template <class T> DEVICE T shuffle_xor(T x, int mask, int line = __builtin_LINE()) {
  return rtx_emulation::exchanged(x, (wave_lane() ^ mask) & (WAVE - 1), line);
}
template <class T> DEVICE T shuffle_down(T x, int by, int line = __builtin_LINE()) {
  const int from = wave_lane() + by;
  return rtx_emulation::exchanged(x, from < WAVE ? from : wave_lane(), line);  // past the end a lane keeps its own
}
DEVICE bool wave_any(bool b, int line = __builtin_LINE()) { return rtx_emulation::vote(rtx_emulation::Collective::any, b, line); }
DEVICE bool wave_all(bool b, int line = __builtin_LINE()) { return rtx_emulation::vote(rtx_emulation::Collective::all, b, line); }
DEVICE void trap(int line = __builtin_LINE()) { rtx_emulation::self().hooks->trap(line); }

// ---- conversions ------------------------------------------------------------------------------------------------------------
DEVICE f32 to_f32(f16 x) {
  const u32 magnitude = u32(x.bits & 0x7fffu) << 13;
  const f32 number = __builtin_bit_cast(f32, magnitude) * 0x1p112f;  // the product also normalises subnormals
  const u32 code = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : __builtin_bit_cast(u32, number);
  return __builtin_bit_cast(f32, code | u32(x.bits & 0x8000u) << 16);
}
DEVICE f32 to_f32(bf16 x) { return __builtin_bit_cast(f32, u32(x.bits) << 16); }
DEVICE f16 to_f16(f32 x) {
  const u32 all = __builtin_bit_cast(u32, x), magnitude = all & 0x7fffffffu;
  u32 code;
  if (magnitude > 0x7f800000u) code = 0x7fffu;  // the machine's NaN
  else if (magnitude >= 0x477ff000u) code = 0x7c00u;
  else if (magnitude < 0x38800000u) code = __builtin_bit_cast(u32, __builtin_bit_cast(f32, magnitude) + 0.5f) - 0x3f000000u;  // rounds at the right bit
  else code = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  return {u16(code | ((all >> 16) & 0x8000u))};
}
DEVICE bf16 to_bf16(f32 x) {
  const u32 all = __builtin_bit_cast(u32, x);
  if ((all & 0x7fffffffu) > 0x7f800000u) return {u16(0x7fff)};
  return {u16((all + 0x7fffu + ((all >> 16) & 1u)) >> 16)};
}
DEVICE u32 pack_f16(f32 low, f32 high) { return to_f16(low).bits | u32(to_f16(high).bits) << 16; }
DEVICE u32 pack_bf16(f32 low, f32 high) { return to_bf16(low).bits | u32(to_bf16(high).bits) << 16; }
DEVICE u32 to_tf32(f32 x) {  // nearest, ties away from zero
  const u32 all = __builtin_bit_cast(u32, x);
  if ((all & 0x7fffffffu) > 0x7f800000u) return 0x7fffffffu;
  return (all & 0x7f800000u) == 0x7f800000u ? all : (all + 0x1000u) & ~0x1fffu;
}

// ---- mathematics of one number ------------------------------------------------------------------------------------------------
namespace scalar {
#define RTX_MATH(name)                                                  \
  DEVICE f32 name(f32 x) { return __builtin_##name##f(x); }             \
  DEVICE f64 name(f64 x) { return __builtin_##name(x); }
#define RTX_MATH_2(name)                                                \
  DEVICE f32 name(f32 x, f32 y) { return __builtin_##name##f(x, y); }   \
  DEVICE f64 name(f64 x, f64 y) { return __builtin_##name(x, y); }
RTX_MATH(exp)
RTX_MATH(exp2)
RTX_MATH(expm1)
RTX_MATH(log)
RTX_MATH(log1p)
RTX_MATH(erf)
RTX_MATH(erfc)
RTX_MATH(tanh)
RTX_MATH(sqrt)
RTX_MATH(floor)
RTX_MATH(ceil)
RTX_MATH(rint)
RTX_MATH_2(pow)
RTX_MATH_2(fmod)
#undef RTX_MATH
#undef RTX_MATH_2
DEVICE f32 rsqrt(f32 x) { return 1.f / sqrt(x); }
DEVICE f64 rsqrt(f64 x) { return 1. / sqrt(x); }
DEVICE f32 abs(f32 x) { return __builtin_fabsf(x); }
DEVICE f64 abs(f64 x) { return __builtin_fabs(x); }
DEVICE f32 fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
DEVICE f64 fma(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
DEVICE f32 exp2_fast(f32 x) { return exp2(x); }
DEVICE f32 rcp_fast(f32 x) { return 1.f / x; }
DEVICE f32 rsqrt_fast(f32 x) { return rsqrt(x); }
}  // namespace scalar

// ---- memory -------------------------------------------------------------------------------------------------------------------
template <int B> struct Bytes;  // B bytes that move as one access
template <> struct alignas(4) Bytes<4> { u32 word[1]; };
template <> struct alignas(8) Bytes<8> { u32 word[2]; };
template <> struct alignas(16) Bytes<16> { u32 word[4]; };
template <int B> DEVICE Bytes<B> load_bytes(const void* p, int line = __builtin_LINE()) {
  if ((reinterpret_cast<u64>(p) & (B - 1)) != 0) rtx_emulation::self().hooks->misaligned(p, B, line);
  Bytes<B> x;
  __builtin_memcpy(&x, p, B);
  return x;
}
template <int B> DEVICE void store_bytes(void* p, Bytes<B> x, int line = __builtin_LINE()) {
  if ((reinterpret_cast<u64>(p) & (B - 1)) != 0) rtx_emulation::self().hooks->misaligned(p, B, line);
  __builtin_memcpy(p, &x, B);
}
DEVICE void prefetch(const void*) {}

template <int B> DEVICE void copy_async(void* to, const void* from, int valid = B, int line = __builtin_LINE()) {
  static_assert(B == 4 || B == 8 || B == 16, "copy_async moves 4, 8 or 16 bytes");
  rtx_emulation::self().hooks->copy_async(to, from, B, valid, line);
}
DEVICE void copy_async_commit() { rtx_emulation::self().hooks->copy_async_commit(); }
template <int N> DEVICE void copy_async_wait(int line = __builtin_LINE()) { rtx_emulation::self().hooks->copy_async_wait(N, line); }

// ---- matrices: fragments as in backend/cuda/prelude.h -------------------------------------------------------------------------
template <int N> DEVICE void load_matrix(u32 (&r)[N], const void* row, int line = __builtin_LINE()) {
  rtx_emulation::matrix(rtx_emulation::Collective::load_matrix, N, r, row, line);
}
template <int N> DEVICE void load_matrix_transposed(u32 (&r)[N], const void* row, int line = __builtin_LINE()) {
  rtx_emulation::matrix(rtx_emulation::Collective::load_matrix_transposed, N, r, row, line);
}
template <int N> DEVICE void store_matrix(void* row, const u32 (&r)[N], int line = __builtin_LINE()) {
  rtx_emulation::matrix(rtx_emulation::Collective::store_matrix, N, r, row, line);
}
DEVICE void mma_16x8x16(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2], bf16, int line = __builtin_LINE()) {
  rtx_emulation::multiply(rtx_emulation::Collective::mma_bf16, d, a, b, line);
}
DEVICE void mma_16x8x16(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2], f16, int line = __builtin_LINE()) {
  rtx_emulation::multiply(rtx_emulation::Collective::mma_f16, d, a, b, line);
}
DEVICE void mma_16x8x8_tf32(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2], int line = __builtin_LINE()) {
  rtx_emulation::multiply(rtx_emulation::Collective::mma_tf32, d, a, b, line);
}
DEVICE void mma_8x8x4_f64(f64 (&d)[2], f64 a, f64 b, int line = __builtin_LINE()) {
  rtx_emulation::multiply(rtx_emulation::Collective::mma_f64, d, &a, &b, line);
}

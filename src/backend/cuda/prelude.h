#pragma once
// The primitives of GPU kernels (docs/adr/0010) for NVIDIA: CUDA C++ as NVRTC takes it, inline PTX, no header. sm_80 and newer;
// what needs a newer one is guarded by __CUDA_ARCH__ and stands behind a rule on Caps in the family that calls it.

#define DEVICE __device__ __forceinline__
#define RESTRICT __restrict__
#define UNROLL _Pragma("unroll")
#define UNROLL_BY_TEXT(text) _Pragma(#text)
#define UNROLL_BY(n) UNROLL_BY_TEXT(unroll n)

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

// An entry: groups of `threads` threads, at least `per_core` of them resident on a core; its arguments are one struct of pointers.
#define KERNEL(name, arguments, threads, per_core)                                 \
  struct name##_arguments { void* at[(arguments) > 0 ? (arguments) : 1]; };        \
  extern "C" __global__ void __launch_bounds__(threads, per_core) name([[maybe_unused]] const __grid_constant__ name##_arguments args)
#define GROUP_LOOP(g) for (i64 g = group(), g##_once = 1; g##_once != 0; g##_once = 0)
#define ARG(type, index) static_cast<type*>(args.at[index])
extern __shared__ __align__(1024) u8 shared_memory[];
#define scratch (static_cast<void*>(shared_memory))

// The compilers' names of constants, and of the larger of two numbers (a NaN loses), which NVRTC does not know.
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000)
#define __builtin_fmaxf(a, b) fmaxf(a, b)

// What C++ compilers have under these names and NVRTC under others.
#define __builtin_memcpy memcpy

// ---- who am I ---------------------------------------------------------------------------------------------------------------
constexpr int WAVE = 32;
DEVICE int thread() { return int(threadIdx.x); }
DEVICE int threads() { return int(blockDim.x); }
DEVICE i64 group() { return i64(blockIdx.x); }
DEVICE i64 groups() { return i64(gridDim.x); }
DEVICE int wave_lane() { return int(threadIdx.x) % WAVE; }
DEVICE int wave() { return __shfl_sync(0xffffffffu, int(threadIdx.x) / WAVE, 0); }  // uniform, and the compiler knows it

// ---- together ---------------------------------------------------------------------------------------------------------------
DEVICE void barrier() { __syncthreads(); }
DEVICE void barrier(int id, int count) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory"); }
DEVICE void wave_barrier() { __syncwarp(); }
template <class T> DEVICE T shuffle(T x, int from) { return __shfl_sync(0xffffffffu, x, from); }
template <class T> DEVICE T shuffle_xor(T x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
template <class T> DEVICE T shuffle_down(T x, int by) { return __shfl_down_sync(0xffffffffu, x, by); }
DEVICE bool wave_any(bool b) { return __any_sync(0xffffffffu, b); }
DEVICE bool wave_all(bool b) { return __all_sync(0xffffffffu, b); }
DEVICE void trap() { asm volatile("trap;"); }

// ---- conversions ------------------------------------------------------------------------------------------------------------
DEVICE f32 to_f32(f16 x) {
  f32 r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits));
  return r;
}
DEVICE f32 to_f32(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }
DEVICE f16 to_f16(f32 x) {
  f16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
  return r;
}
DEVICE bf16 to_bf16(f32 x) {
  bf16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
  return r;
}
DEVICE u32 pack_f16(f32 low, f32 high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
DEVICE u32 pack_bf16(f32 low, f32 high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
DEVICE u32 to_tf32(f32 x) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}

// ---- mathematics of one number ------------------------------------------------------------------------------------------------
namespace scalar {
DEVICE f32 exp(f32 x) { return expf(x); }
DEVICE f64 exp(f64 x) { return ::exp(x); }
DEVICE f32 exp2(f32 x) { return exp2f(x); }
DEVICE f64 exp2(f64 x) { return ::exp2(x); }
DEVICE f32 expm1(f32 x) { return expm1f(x); }
DEVICE f64 expm1(f64 x) { return ::expm1(x); }
DEVICE f32 log(f32 x) { return logf(x); }
DEVICE f64 log(f64 x) { return ::log(x); }
DEVICE f32 log1p(f32 x) { return log1pf(x); }
DEVICE f64 log1p(f64 x) { return ::log1p(x); }
DEVICE f32 erf(f32 x) { return erff(x); }
DEVICE f64 erf(f64 x) { return ::erf(x); }
DEVICE f32 erfc(f32 x) { return erfcf(x); }
DEVICE f64 erfc(f64 x) { return ::erfc(x); }
DEVICE f32 tanh(f32 x) { return tanhf(x); }
DEVICE f64 tanh(f64 x) { return ::tanh(x); }
DEVICE f32 sqrt(f32 x) { return __fsqrt_rn(x); }
DEVICE f64 sqrt(f64 x) { return __dsqrt_rn(x); }
DEVICE f32 rsqrt(f32 x) { return 1.f / __fsqrt_rn(x); }  // both roundings, no approximation
DEVICE f64 rsqrt(f64 x) { return 1. / __dsqrt_rn(x); }
DEVICE f32 pow(f32 x, f32 y) { return powf(x, y); }
DEVICE f64 pow(f64 x, f64 y) { return ::pow(x, y); }
DEVICE f32 fmod(f32 x, f32 y) { return fmodf(x, y); }
DEVICE f64 fmod(f64 x, f64 y) { return ::fmod(x, y); }
DEVICE f32 floor(f32 x) { return floorf(x); }
DEVICE f64 floor(f64 x) { return ::floor(x); }
DEVICE f32 ceil(f32 x) { return ceilf(x); }
DEVICE f64 ceil(f64 x) { return ::ceil(x); }
DEVICE f32 rint(f32 x) { return rintf(x); }
DEVICE f64 rint(f64 x) { return ::rint(x); }
DEVICE f32 abs(f32 x) { return fabsf(x); }
DEVICE f64 abs(f64 x) { return ::fabs(x); }
DEVICE f32 fma(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
DEVICE f64 fma(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
DEVICE f32 exp2_fast(f32 x) {
  f32 r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
DEVICE f32 rcp_fast(f32 x) {
  f32 r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
DEVICE f32 rsqrt_fast(f32 x) {
  f32 r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
}  // namespace scalar

// ---- memory -------------------------------------------------------------------------------------------------------------------
template <int B> struct Bytes;  // B bytes that move as one access
template <> struct alignas(4) Bytes<4> { u32 word[1]; };
template <> struct alignas(8) Bytes<8> { u32 word[2]; };
template <> struct alignas(16) Bytes<16> { u32 word[4]; };
template <int B> DEVICE Bytes<B> load_bytes(const void* p) { return *static_cast<const Bytes<B>*>(p); }
template <int B> DEVICE void store_bytes(void* p, Bytes<B> x) { *static_cast<Bytes<B>*>(p) = x; }
DEVICE void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

DEVICE u32 shared_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }
template <int B> DEVICE void copy_async(void* to, const void* from, int valid = B) {
  if constexpr (B == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(valid) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(B), "r"(valid) : "memory");
}
DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEVICE void copy_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// ---- matrices -------------------------------------------------------------------------------------------------------------------
// Lane l gives the address of row l % 8 of tile l / 8 (16 bytes, aligned); register t of lane l holds elements (l / 4, l % 4 * 2 + {0, 1})
// of tile t; transposed: elements (l % 4 * 2 + {0, 1}, l / 4).
template <int N> DEVICE void load_matrix(u32 (&r)[N], const void* row) {
  const u32 a = shared_address(row);
  if constexpr (N == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a) : "memory");
  else if constexpr (N == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(a) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(a) : "memory");
}
template <int N> DEVICE void load_matrix_transposed(u32 (&r)[N], const void* row) {
  const u32 a = shared_address(row);
  if constexpr (N == 4)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a) : "memory");
  else if constexpr (N == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(a) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(a) : "memory");
}
#if __CUDA_ARCH__ >= 900
template <int N> DEVICE void store_matrix(void* row, const u32 (&r)[N]) {
  const u32 a = shared_address(row);
  if constexpr (N == 4)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
  else if constexpr (N == 2)
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(a), "r"(r[0]), "r"(r[1]) : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(a), "r"(r[0]) : "memory");
}
#endif

// d += a b on 16 x 8 x 16 (8). With g = lane / 4, t = lane % 4:
//   d[2h + e]  row g + 8h, column 2t + e
//   a[h + 2c]  row g + 8h, depths 8c + 2t, 8c + 2t + 1        b[c]  depths 8c + 2t, 8c + 2t + 1, column g
//   tf32: a[h + 2c]  row g + 8h, depth t + 4c                 b[c]  depth t + 4c, column g
DEVICE void mma_16x8x16(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2], bf16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void mma_16x8x16(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2], f16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DEVICE void mma_16x8x8_tf32(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// d[e]: row g, column 2t + e; a: row g, depth t; b: depth t, column g.
DEVICE void mma_8x8x4_f64(f64 (&d)[2], f64 a, f64 b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(d[0]), "+d"(d[1]) : "d"(a), "d"(b));
}

#pragma once
// The words that every emitted text may use, whatever the target: a prelude defines all of them. Beyond
// these, device headers that run on a target with explicit vectors use vec<T, N>, load, store, splat, select,
// convert and math:: as backend/cpu/prelude.h has them. A prelude includes nothing: emitted text is
// self-contained, and so it compiles fast.

// A function that kernels call; always inlined.
#define DEVICE inline
#define RESTRICT __restrict
// An entry of a launch. On a CPU, KERNEL(name), it is a loop over a share of the groups; on a GPU one group of
// `threads` threads, of which a core should hold `per_core`, and group_end = group_begin + 1. `scratch` belongs
// to the group alone and is aligned to 64.
#define KERNEL(name, arguments, threads, per_core)                                           \
  extern "C" void name([[maybe_unused]] void* const* args, [[maybe_unused]] i64 group_begin, \
                       [[maybe_unused]] i64 group_end, [[maybe_unused]] void* scratch)
#define GROUP_LOOP(g) for (i64 g = group_begin; g < group_end; ++g)
// Argument `index` of the launch as a pointer to `type`.
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
struct f16 {
  u16 bits;
};  // storage only: arithmetic is in f32
struct bf16 {
  u16 bits;
};                   // storage only
using boolean = u8;  // 0 or 1

#pragma once
// The Hopper set of primitives (docs/adr/0011) for NVIDIA: tensor maps, barriers in shared memory, asynchronous products, clusters.
// sm_90a alone; behind backend/cuda/prelude.h.
#if __CUDA_ARCH__ == 900

// ---- entries with views -------------------------------------------------------------------------------------------------------
// A view describes the buffer of one argument as a tensor whose boxes move between it and scratch; the device makes it. VIEW(i) is
// the launch's i-th. A cluster is `cluster` groups, one behind the other, that see each other's scratch.
struct alignas(64) TensorMap { u64 word[16]; };
template <int V, int N> struct ViewParameters { TensorMap view[V]; void* at[N]; };
template <int N> struct ViewParameters<0, N> { void* at[N]; };
#define KERNEL_VIEWS(name, arguments, views, threads, per_core)                                        \
  using name##_arguments = ViewParameters<views, ((arguments) > 0 ? (arguments) : 1)>;                   \
  extern "C" __global__ void __launch_bounds__(threads, per_core) name([[maybe_unused]] const __grid_constant__ name##_arguments args)
#define KERNEL_VIEWS_CLUSTER(name, arguments, views, threads, per_core, cluster)                       \
  using name##_arguments = ViewParameters<views, ((arguments) > 0 ? (arguments) : 1)>;                   \
  extern "C" __global__ void __cluster_dims__(cluster, 1, 1) __launch_bounds__(threads, per_core)      \
      name([[maybe_unused]] const __grid_constant__ name##_arguments args)
#define VIEW(index) (&args.view[index])

// ---- who am I, more of it -------------------------------------------------------------------------------------------------------
DEVICE int warpgroup() { return __shfl_sync(0xffffffffu, int(threadIdx.x) / 128, 0); }  // uniform, and the compiler knows it
DEVICE bool elect_one() {
  u32 r;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(r)::"memory");
  return r != 0;
}
template <int N> DEVICE void registers_grow() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> DEVICE void registers_shrink() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
DEVICE void barrier_arrive(int id, int count) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory"); }

// ---- barriers in shared memory --------------------------------------------------------------------------------------------------
struct Mbarrier { u64 word; };
DEVICE void mbarrier_init(Mbarrier* at, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(at)), "r"(arrivals) : "memory");
}
DEVICE void mbarrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void mbarrier_arrive(Mbarrier* at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(at)) : "memory"); }
// The default semantics: an explicit release at cluster scope costs a membar at each arrival.
DEVICE void mbarrier_arrive_remote(Mbarrier* at, int rank) {
  asm volatile("{.reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [r];}" ::"r"(shared_address(at)), "r"(rank) : "memory");
}
DEVICE void mbarrier_expect(Mbarrier* at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(at)), "r"(bytes) : "memory");
}
DEVICE void mbarrier_wait(Mbarrier* at, u32 parity) {
  asm volatile("{.reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra DONE; bra AGAIN; DONE: }" ::"r"(shared_address(at)), "r"(parity) : "memory");
}

// ---- boxes of a view: coordinates innermost first, in elements --------------------------------------------------------------------
DEVICE void prefetch_view(const TensorMap* view) { asm volatile("prefetch.tensormap [%0];" ::"l"(view) : "memory"); }
#define RTX_VIEW(RANK, TYPES, HOLES, COORDINATES, MASK)                                                                                                    \
  DEVICE void load_view(void* to, const TensorMap* view, Mbarrier* at, RTX_UNPACK TYPES) {                                                                 \
    asm volatile("cp.async.bulk.tensor." RANK ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" HOLES "}], [%2];" ::"r"(shared_address(to)), \
                 "l"(view), "r"(shared_address(at)), RTX_UNPACK COORDINATES : "memory");                                                                   \
  }                                                                                                                                                        \
  DEVICE void load_view_multicast(void* to, const TensorMap* view, Mbarrier* at, RTX_UNPACK TYPES, u16 mask) {                                             \
    asm volatile("cp.async.bulk.tensor." RANK ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {" HOLES "}], [%2], " MASK ";" ::"r"( \
                     shared_address(to)),                                                                                                                  \
                 "l"(view), "r"(shared_address(at)), RTX_UNPACK COORDINATES, "h"(mask) : "memory");                                                        \
  }                                                                                                                                                        \
  DEVICE void store_view(const TensorMap* view, const void* from, RTX_UNPACK TYPES) {                                                                      \
    asm volatile("cp.async.bulk.tensor." RANK ".global.shared::cta.tile.bulk_group [%1, {" HOLES "}], [%0];" ::"r"(shared_address(from)), "l"(view), "n"(0), /* holes from %3 on */ \
                 RTX_UNPACK COORDINATES : "memory");                                                                                                       \
  }
#define RTX_UNPACK(...) __VA_ARGS__
RTX_VIEW("2d", (int c0, int c1), "%3, %4", ("r"(c0), "r"(c1)), "%5")
RTX_VIEW("3d", (int c0, int c1, int c2), "%3, %4, %5", ("r"(c0), "r"(c1), "r"(c2)), "%6")
RTX_VIEW("4d", (int c0, int c1, int c2, int c3), "%3, %4, %5, %6", ("r"(c0), "r"(c1), "r"(c2), "r"(c3)), "%7")
RTX_VIEW("5d", (int c0, int c1, int c2, int c3, int c4), "%3, %4, %5, %6, %7", ("r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)), "%8")
#undef RTX_VIEW
#undef RTX_UNPACK
DEVICE void store_view_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> DEVICE void store_view_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
template <int N> DEVICE void store_view_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }
// What this thread wrote to scratch is seen by boxes stored and products issued behind the next barrier.
DEVICE void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- clusters ---------------------------------------------------------------------------------------------------------------------
DEVICE int cluster_rank() {
  u32 r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return int(r);
}
DEVICE void cluster_barrier() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
template <class T> DEVICE T load_remote(const T* at, int rank) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a load from another group's scratch moves 4 or 8 bytes");
  T out;
  if constexpr (sizeof(T) == 4) {
    u32 x;
    asm volatile("{.reg .b32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.b32 %0, [a];}" : "=r"(x) : "r"(shared_address(at)), "r"(rank) : "memory");
    __builtin_memcpy(&out, &x, 4);
  } else {
    u64 x;
    asm volatile("{.reg .b32 a; mapa.shared::cluster.u32 a, %1, %2; ld.shared::cluster.b64 %0, [a];}" : "=l"(x) : "r"(shared_address(at)), "r"(rank) : "memory");
    __builtin_memcpy(&out, &x, 8);
  }
  return out;
}
DEVICE void wait_dependency() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
DEVICE void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// ---- products of a warpgroup: 64 x N, operands in scratch (or A in registers) --------------------------------------------------------
// d[4j + 2h + e]: row 16 w + g + 8h, column 8j + 2t + e, with w = wave() % 4, g = lane / 4, t = lane % 4; A in registers: as for
// mma_16x8x16, for the wave's 16 rows. TA, TB: the operand is stored with M (N) contiguous, not K.
// `leading` and `stride`: bytes between an operand's atoms (the table in docs/adr/0011); swizzle 0, 32, 64 or 128 bytes.
DEVICE u64 matrix_view(const void* at, int leading, int stride, int swizzle) {
  const u64 code = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  return u64((shared_address(at) & 0x3ffffu) >> 4) | u64((leading >> 4) & 0x3fff) << 16 | u64((stride >> 4) & 0x3fff) << 32 | code << 62;
}
DEVICE u64 matrix_view_step(u64 view, int bytes) { return (view & 0xffffffff00000000ull) | u32(u32(view) + u32(bytes >> 4)); }
DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }

// One width of products, as a text needs it: WGMMA_WIDTH(128), once, outside of any function.
template <int N> struct Wgmma;
template <int N, bool TA = false, bool TB = false, class T> DEVICE void wgmma(f32 (&d)[N / 2], u64 a, u64 b, bool accumulate, T type) {
  Wgmma<N>::template shared<TA, TB>(d, a, b, accumulate, type);
}
template <int N, bool TB = false, class T> DEVICE void wgmma(f32 (&d)[N / 2], const u32 (&a)[4], u64 b, bool accumulate, T type) {
  Wgmma<N>::template registers<TB>(d, a, b, accumulate, type);
}
template <int N> DEVICE void wgmma_tf32(f32 (&d)[N / 2], u64 a, u64 b, bool accumulate) { Wgmma<N>::tf32(d, a, b, accumulate); }
template <int N> DEVICE void wgmma_e4m3(f32 (&d)[N / 2], u64 a, u64 b, bool accumulate) { Wgmma<N>::e4m3(d, a, b, accumulate); }

// "{%0, ...}, a, b, p, 1, 1, ta, tb" for operands behind the N / 2 accumulators; p is true where they are added to.
#define RTX_WGMMA_FLAG(i0, i1, i2, i3, i4, i5, i6) "{.reg .pred p; setp.ne.b32 p, " i2 ", 0; wgmma.mma_async.sync.aligned.m64n"
#define RTX_WGMMA_TAIL(i0, i1, i2, i3, i4, i5, i6) "}, " i0 ", " i1 ", p, 1, 1, " i3 ", " i4 ";}"
#define RTX_WGMMA_TAIL_PLAIN(i0, i1, i2, i3, i4, i5, i6) "}, " i0 ", " i1 ", p, 1, 1;}"
#define RTX_WGMMA_FLAG_R(i0, i1, i2, i3, i4, i5, i6) "{.reg .pred p; setp.ne.b32 p, " i5 ", 0; wgmma.mma_async.sync.aligned.m64n"
#define RTX_WGMMA_TAIL_R(i0, i1, i2, i3, i4, i5, i6) "}, {" i0 ", " i1 ", " i2 ", " i3 "}, " i4 ", p, 1, 1, " i6 ";}"
#define RTX_WGMMA_SHARED(N, type, types, D, R, I)                                                                                  \
  template <bool TA, bool TB> static DEVICE void shared(f32 (&d)[N / 2], u64 a, u64 b, bool more, type) {                          \
    asm volatile(I(RTX_WGMMA_FLAG) #N "k16.f32." types " {" D I(RTX_WGMMA_TAIL) : R(d) : "l"(a), "l"(b), "r"(int(more)), "n"(TA), "n"(TB)); \
  }                                                                                                                                \
  template <bool TB> static DEVICE void registers(f32 (&d)[N / 2], const u32 (&a)[4], u64 b, bool more, type) {                    \
    asm volatile(I(RTX_WGMMA_FLAG_R) #N "k16.f32." types " {" D I(RTX_WGMMA_TAIL_R)                                                \
                 : R(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(more)), "n"(TB));                            \
  }
#define RTX_WGMMA_PLAIN(N, name, types, D, R, I)                                                                                   \
  static DEVICE void name(f32 (&d)[N / 2], u64 a, u64 b, bool more) {                                                              \
    asm volatile(I(RTX_WGMMA_FLAG) #N types " {" D I(RTX_WGMMA_TAIL_PLAIN) : R(d) : "l"(a), "l"(b), "r"(int(more)));               \
  }
#define WGMMA_WIDTH(N)                                                               \
  template <> struct Wgmma<N> {                                                      \
    RTX_WGMMA_SHARED(N, bf16, "bf16.bf16", RTX_D##N, RTX_R##N, RTX_I##N)             \
    RTX_WGMMA_SHARED(N, f16, "f16.f16", RTX_D##N, RTX_R##N, RTX_I##N)                \
    RTX_WGMMA_PLAIN(N, tf32, "k8.f32.tf32.tf32", RTX_D##N, RTX_R##N, RTX_I##N)       \
    RTX_WGMMA_PLAIN(N, e4m3, "k32.f32.e4m3.e4m3", RTX_D##N, RTX_R##N, RTX_I##N)      \
  };

// Names of the accumulators, the accumulators as operands, and the numbers of the seven operands behind them.
#define RTX_R4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define RTX_D8 "%0, %1, %2, %3"
#define RTX_R8(d) RTX_R4(d, 0)
#define RTX_I8(F) F("%4", "%5", "%6", "%7", "%8", "%9", "%10")
#define RTX_D16 RTX_D8 ", %4, %5, %6, %7"
#define RTX_R16(d) RTX_R8(d), RTX_R4(d, 4)
#define RTX_I16(F) F("%8", "%9", "%10", "%11", "%12", "%13", "%14")
#define RTX_D24 RTX_D16 ", %8, %9, %10, %11"
#define RTX_R24(d) RTX_R16(d), RTX_R4(d, 8)
#define RTX_I24(F) F("%12", "%13", "%14", "%15", "%16", "%17", "%18")
#define RTX_D32 RTX_D24 ", %12, %13, %14, %15"
#define RTX_R32(d) RTX_R24(d), RTX_R4(d, 12)
#define RTX_I32(F) F("%16", "%17", "%18", "%19", "%20", "%21", "%22")
#define RTX_D40 RTX_D32 ", %16, %17, %18, %19"
#define RTX_R40(d) RTX_R32(d), RTX_R4(d, 16)
#define RTX_I40(F) F("%20", "%21", "%22", "%23", "%24", "%25", "%26")
#define RTX_D48 RTX_D40 ", %20, %21, %22, %23"
#define RTX_R48(d) RTX_R40(d), RTX_R4(d, 20)
#define RTX_I48(F) F("%24", "%25", "%26", "%27", "%28", "%29", "%30")
#define RTX_D56 RTX_D48 ", %24, %25, %26, %27"
#define RTX_R56(d) RTX_R48(d), RTX_R4(d, 24)
#define RTX_I56(F) F("%28", "%29", "%30", "%31", "%32", "%33", "%34")
#define RTX_D64 RTX_D56 ", %28, %29, %30, %31"
#define RTX_R64(d) RTX_R56(d), RTX_R4(d, 28)
#define RTX_I64(F) F("%32", "%33", "%34", "%35", "%36", "%37", "%38")
#define RTX_D72 RTX_D64 ", %32, %33, %34, %35"
#define RTX_R72(d) RTX_R64(d), RTX_R4(d, 32)
#define RTX_I72(F) F("%36", "%37", "%38", "%39", "%40", "%41", "%42")
#define RTX_D80 RTX_D72 ", %36, %37, %38, %39"
#define RTX_R80(d) RTX_R72(d), RTX_R4(d, 36)
#define RTX_I80(F) F("%40", "%41", "%42", "%43", "%44", "%45", "%46")
#define RTX_D88 RTX_D80 ", %40, %41, %42, %43"
#define RTX_R88(d) RTX_R80(d), RTX_R4(d, 40)
#define RTX_I88(F) F("%44", "%45", "%46", "%47", "%48", "%49", "%50")
#define RTX_D96 RTX_D88 ", %44, %45, %46, %47"
#define RTX_R96(d) RTX_R88(d), RTX_R4(d, 44)
#define RTX_I96(F) F("%48", "%49", "%50", "%51", "%52", "%53", "%54")
#define RTX_D104 RTX_D96 ", %48, %49, %50, %51"
#define RTX_R104(d) RTX_R96(d), RTX_R4(d, 48)
#define RTX_I104(F) F("%52", "%53", "%54", "%55", "%56", "%57", "%58")
#define RTX_D112 RTX_D104 ", %52, %53, %54, %55"
#define RTX_R112(d) RTX_R104(d), RTX_R4(d, 52)
#define RTX_I112(F) F("%56", "%57", "%58", "%59", "%60", "%61", "%62")
#define RTX_D120 RTX_D112 ", %56, %57, %58, %59"
#define RTX_R120(d) RTX_R112(d), RTX_R4(d, 56)
#define RTX_I120(F) F("%60", "%61", "%62", "%63", "%64", "%65", "%66")
#define RTX_D128 RTX_D120 ", %60, %61, %62, %63"
#define RTX_R128(d) RTX_R120(d), RTX_R4(d, 60)
#define RTX_I128(F) F("%64", "%65", "%66", "%67", "%68", "%69", "%70")
#define RTX_D136 RTX_D128 ", %64, %65, %66, %67"
#define RTX_R136(d) RTX_R128(d), RTX_R4(d, 64)
#define RTX_I136(F) F("%68", "%69", "%70", "%71", "%72", "%73", "%74")
#define RTX_D144 RTX_D136 ", %68, %69, %70, %71"
#define RTX_R144(d) RTX_R136(d), RTX_R4(d, 68)
#define RTX_I144(F) F("%72", "%73", "%74", "%75", "%76", "%77", "%78")
#define RTX_D152 RTX_D144 ", %72, %73, %74, %75"
#define RTX_R152(d) RTX_R144(d), RTX_R4(d, 72)
#define RTX_I152(F) F("%76", "%77", "%78", "%79", "%80", "%81", "%82")
#define RTX_D160 RTX_D152 ", %76, %77, %78, %79"
#define RTX_R160(d) RTX_R152(d), RTX_R4(d, 76)
#define RTX_I160(F) F("%80", "%81", "%82", "%83", "%84", "%85", "%86")
#define RTX_D168 RTX_D160 ", %80, %81, %82, %83"
#define RTX_R168(d) RTX_R160(d), RTX_R4(d, 80)
#define RTX_I168(F) F("%84", "%85", "%86", "%87", "%88", "%89", "%90")
#define RTX_D176 RTX_D168 ", %84, %85, %86, %87"
#define RTX_R176(d) RTX_R168(d), RTX_R4(d, 84)
#define RTX_I176(F) F("%88", "%89", "%90", "%91", "%92", "%93", "%94")
#define RTX_D184 RTX_D176 ", %88, %89, %90, %91"
#define RTX_R184(d) RTX_R176(d), RTX_R4(d, 88)
#define RTX_I184(F) F("%92", "%93", "%94", "%95", "%96", "%97", "%98")
#define RTX_D192 RTX_D184 ", %92, %93, %94, %95"
#define RTX_R192(d) RTX_R184(d), RTX_R4(d, 92)
#define RTX_I192(F) F("%96", "%97", "%98", "%99", "%100", "%101", "%102")
#define RTX_D200 RTX_D192 ", %96, %97, %98, %99"
#define RTX_R200(d) RTX_R192(d), RTX_R4(d, 96)
#define RTX_I200(F) F("%100", "%101", "%102", "%103", "%104", "%105", "%106")
#define RTX_D208 RTX_D200 ", %100, %101, %102, %103"
#define RTX_R208(d) RTX_R200(d), RTX_R4(d, 100)
#define RTX_I208(F) F("%104", "%105", "%106", "%107", "%108", "%109", "%110")
#define RTX_D216 RTX_D208 ", %104, %105, %106, %107"
#define RTX_R216(d) RTX_R208(d), RTX_R4(d, 104)
#define RTX_I216(F) F("%108", "%109", "%110", "%111", "%112", "%113", "%114")
#define RTX_D224 RTX_D216 ", %108, %109, %110, %111"
#define RTX_R224(d) RTX_R216(d), RTX_R4(d, 108)
#define RTX_I224(F) F("%112", "%113", "%114", "%115", "%116", "%117", "%118")
#define RTX_D232 RTX_D224 ", %112, %113, %114, %115"
#define RTX_R232(d) RTX_R224(d), RTX_R4(d, 112)
#define RTX_I232(F) F("%116", "%117", "%118", "%119", "%120", "%121", "%122")
#define RTX_D240 RTX_D232 ", %116, %117, %118, %119"
#define RTX_R240(d) RTX_R232(d), RTX_R4(d, 116)
#define RTX_I240(F) F("%120", "%121", "%122", "%123", "%124", "%125", "%126")
#define RTX_D248 RTX_D240 ", %120, %121, %122, %123"
#define RTX_R248(d) RTX_R240(d), RTX_R4(d, 120)
#define RTX_I248(F) F("%124", "%125", "%126", "%127", "%128", "%129", "%130")
#define RTX_D256 RTX_D248 ", %124, %125, %126, %127"
#define RTX_R256(d) RTX_R248(d), RTX_R4(d, 124)
#define RTX_I256(F) F("%128", "%129", "%130", "%131", "%132", "%133", "%134")

#endif  // __CUDA_ARCH__ == 900

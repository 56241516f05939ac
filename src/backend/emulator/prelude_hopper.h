#pragma once
// The Hopper set of primitives (docs/adr/0011) in C++ for the host: what a thread asks for is done by the device, which also keeps
// the machine's rules about when it may be asked for. Behind backend/emulator/prelude.h.

// ---- entries with views -------------------------------------------------------------------------------------------------------
struct alignas(64) TensorMap { u64 word[16]; };  // the device's own
#define KERNEL_VIEWS(name, arguments, views, threads, per_core) KERNEL_VIEWS_CLUSTER(name, arguments, views, threads, per_core, 1)
#define KERNEL_VIEWS_CLUSTER(name, arguments, views, threads, per_core, cluster)                                   \
  static void name##_thread();                                                                                     \
  extern "C" __attribute__((visibility("default"))) const rtx_emulation::Entry name##_entry;                       \
  const rtx_emulation::Entry name##_entry = {name##_thread, arguments, threads, views, cluster, per_core};         \
  static void name##_thread()
#define VIEW(index) (static_cast<const TensorMap*>(rtx_emulation::self().views) + (index))

// ---- who am I, more of it -------------------------------------------------------------------------------------------------------
DEVICE int warpgroup(int line = __builtin_LINE()) { return shuffle(thread() / 128, 0, line); }  // as there: by all lanes, or none comes back
DEVICE bool elect_one(int line = __builtin_LINE()) { return rtx_emulation::vote(rtx_emulation::Collective::elect, wave_lane() == 0, line); }
template <int N> DEVICE void registers_grow(int line = __builtin_LINE()) { rtx_emulation::self().hooks->registers(N, true, line); }
template <int N> DEVICE void registers_shrink(int line = __builtin_LINE()) { rtx_emulation::self().hooks->registers(N, false, line); }
DEVICE void barrier_arrive(int id, int count, int line = __builtin_LINE()) { rtx_emulation::self().hooks->barrier_arrive(id, count, line); }

// ---- barriers in shared memory --------------------------------------------------------------------------------------------------
struct Mbarrier { u64 word; };
namespace rtx_emulation {
DEVICE void ask(Mbarrier::Kind kind, void* at, int number, int line) { self().hooks->mbarrier({kind, line, at, number}); }
DEVICE void ask(Groups::Kind kind, int open, int line) { self().hooks->groups({kind, line, open}); }
struct Line {  // no number, so that it is never taken for a coordinate
  int number;
  explicit Line(int n) : number(n) {}
};
}  // namespace rtx_emulation
DEVICE void mbarrier_init(Mbarrier* at, int arrivals, int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Mbarrier::init, at, arrivals, line); }
DEVICE void mbarrier_init_done(int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Mbarrier::init_done, nullptr, 0, line); }
DEVICE void mbarrier_arrive(Mbarrier* at, int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Mbarrier::arrive, at, 1, line); }
DEVICE void mbarrier_arrive_remote(Mbarrier* at, int rank, int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Mbarrier::arrive_remote, at, rank, line); }
DEVICE void mbarrier_expect(Mbarrier* at, int bytes, int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Mbarrier::expect, at, bytes, line); }
DEVICE void mbarrier_wait(Mbarrier* at, u32 parity, int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Mbarrier::wait, at, int(parity), line); }

// ---- boxes of a view: coordinates innermost first, in elements --------------------------------------------------------------------
DEVICE void prefetch_view(const TensorMap*) {}
#define RTX_LINE rtx_emulation::Line line = rtx_emulation::Line(__builtin_LINE())
#define RTX_VIEW(RANK, TYPES, NAMES)                                                                                             \
  DEVICE void load_view(void* to, const TensorMap* view, Mbarrier* at, RTX_UNPACK TYPES, RTX_LINE) {                             \
    rtx_emulation::self().hooks->box({rtx_emulation::Box::load, line.number, RANK, to, view, at, {RTX_UNPACK NAMES}, 0});        \
  }                                                                                                                              \
  DEVICE void load_view_multicast(void* to, const TensorMap* view, Mbarrier* at, RTX_UNPACK TYPES, u16 mask, RTX_LINE) {         \
    rtx_emulation::self().hooks->box({rtx_emulation::Box::load_multicast, line.number, RANK, to, view, at, {RTX_UNPACK NAMES}, mask}); \
  }                                                                                                                              \
  DEVICE void store_view(const TensorMap* view, const void* from, RTX_UNPACK TYPES, RTX_LINE) {                                  \
    rtx_emulation::self().hooks->box({rtx_emulation::Box::store, line.number, RANK, const_cast<void*>(from), view, nullptr, {RTX_UNPACK NAMES}, 0}); \
  }
#define RTX_UNPACK(...) __VA_ARGS__
RTX_VIEW(2, (int c0, int c1), (c0, c1))
RTX_VIEW(3, (int c0, int c1, int c2), (c0, c1, c2))
RTX_VIEW(4, (int c0, int c1, int c2, int c3), (c0, c1, c2, c3))
RTX_VIEW(5, (int c0, int c1, int c2, int c3, int c4), (c0, c1, c2, c3, c4))
#undef RTX_VIEW
#undef RTX_UNPACK
#undef RTX_LINE
DEVICE void store_view_commit(int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Groups::commit_stores, 0, line); }
template <int N> DEVICE void store_view_wait_read(int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Groups::wait_stores_read, N, line); }
template <int N> DEVICE void store_view_wait(int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Groups::wait_stores, N, line); }
DEVICE void proxy_fence() { rtx_emulation::self().hooks->proxy_fence(); }

// ---- clusters ---------------------------------------------------------------------------------------------------------------------
DEVICE int cluster_rank() { return rtx_emulation::self().cluster_rank; }
DEVICE void cluster_barrier(int line = __builtin_LINE()) { rtx_emulation::self().hooks->cluster_barrier(line); }
template <class T> DEVICE T load_remote(const T* at, int rank, int line = __builtin_LINE()) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a load from another group's scratch moves 4 or 8 bytes");
  return *static_cast<const T*>(rtx_emulation::self().hooks->remote(at, sizeof(T), rank, line));
}
DEVICE void wait_dependency() {}
DEVICE void launch_dependents() {}

// ---- products of a warpgroup ---------------------------------------------------------------------------------------------------------
// A view holds an address as the machine does: bytes from the start of scratch.
DEVICE u64 matrix_view(const void* at, int leading, int stride, int swizzle) {
  const u64 code = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
  const u64 address = static_cast<u64>(static_cast<const u8*>(at) - static_cast<const u8*>(scratch));
  return (address & 0x3ffffu) >> 4 | u64((leading >> 4) & 0x3fff) << 16 | u64((stride >> 4) & 0x3fff) << 32 | code << 62;
}
DEVICE u64 matrix_view_step(u64 view, int bytes) { return (view & 0xffffffff00000000ull) | u32(u32(view) + u32(bytes >> 4)); }
DEVICE void wgmma_fence(int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Groups::fence_products, 0, line); }
DEVICE void wgmma_commit(int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Groups::commit_products, 0, line); }
template <int N> DEVICE void wgmma_wait(int line = __builtin_LINE()) { rtx_emulation::ask(rtx_emulation::Groups::wait_products, N, line); }

template <int N> struct Wgmma;
#define WGMMA_WIDTH(N) template <> struct Wgmma<N> { static constexpr int width = N; };
namespace rtx_emulation {
template <int N, class T> struct ProductKind;
template <int N> struct ProductKind<N, f16> { static constexpr Product::Kind kind = Product::f16; };
template <int N> struct ProductKind<N, bf16> { static constexpr Product::Kind kind = Product::bf16; };
template <int N> DEVICE void product(f32 (&d)[N / 2], Product::Kind kind, const u32* registers, u64 a, u64 b, bool ta, bool tb, bool accumulate, int line) {
  static_assert(Wgmma<N>::width >= 8 && N <= 256 && N % 8 == 0, "WGMMA_WIDTH(N) makes products of width N");
  self().hooks->product({kind, line, N, d, registers, a, b, ta, tb, accumulate});
}
}  // namespace rtx_emulation
template <int N, bool TA = false, bool TB = false, class T> DEVICE void wgmma(f32 (&d)[N / 2], u64 a, u64 b, bool accumulate, T, int line = __builtin_LINE()) {
  rtx_emulation::product<N>(d, rtx_emulation::ProductKind<N, T>::kind, nullptr, a, b, TA, TB, accumulate, line);
}
template <int N, bool TB = false, class T> DEVICE void wgmma(f32 (&d)[N / 2], const u32 (&a)[4], u64 b, bool accumulate, T, int line = __builtin_LINE()) {
  rtx_emulation::product<N>(d, rtx_emulation::ProductKind<N, T>::kind, a, 0, b, false, TB, accumulate, line);
}
template <int N> DEVICE void wgmma_tf32(f32 (&d)[N / 2], u64 a, u64 b, bool accumulate, int line = __builtin_LINE()) {
  rtx_emulation::product<N>(d, rtx_emulation::Product::tf32, nullptr, a, b, false, false, accumulate, line);
}
template <int N> DEVICE void wgmma_e4m3(f32 (&d)[N / 2], u64 a, u64 b, bool accumulate, int line = __builtin_LINE()) {
  rtx_emulation::product<N>(d, rtx_emulation::Product::e4m3, nullptr, a, b, false, false, accumulate, line);
}

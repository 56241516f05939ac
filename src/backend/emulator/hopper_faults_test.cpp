// Kernels that break one rule of the Hopper set each: the launch ends with a sentence that says which, and the right kernel beside them
// passes in both orders.
#include "backend/emulator/rig_testing.h"

namespace rtx::backend::emulator {
namespace {

// c = a b^T, 64 x 64 x 64 `steps`, one warpgroup that loads and one that multiplies.
const char* const kRing = R"(
WGMMA_WIDTH(64)
enum Fault { none, no_proxy_fence, half_a_fence, early_release, release_before_wait, many_bytes, few_bytes, producer_parity, consumer_parity, swizzle, touched, no_fence, no_wait,
             no_store_wait, reused_store, extra_arrival, no_init, no_init_done, overwritten, half_a_warpgroup, other_operands, other_registers, in_atom };
template <int FAULT> DEVICE void ring(const TensorMap* a, const TensorMap* b, const TensorMap* c) {
  constexpr int stages = 2, stage = 16384, steps = 4;
  u8* const s = static_cast<u8*>(scratch);
  Mbarrier* const full = reinterpret_cast<Mbarrier*>(s + stages * stage + 8192);
  Mbarrier* const empty = full + stages;
  if (thread() == 0) {
    for (int i = 0; i < stages; ++i) {
      mbarrier_init(full + i, 1);
      if (FAULT != no_init) mbarrier_init(empty + i, 1);
    }
    if (FAULT != no_init_done) mbarrier_init_done();
    if (FAULT == overwritten) full[1].word = 0;
  }
  barrier();
  if (warpgroup() == 0) {
    registers_shrink<40>();
    if (thread() == 0)
      for (int k = 0; k < steps; ++k) {
        u8* const at = s + k % stages * stage;
        mbarrier_wait(empty + k % stages, u32(k / stages & 1) ^ (FAULT == producer_parity ? 0 : 1));
        mbarrier_expect(full + k % stages, FAULT == many_bytes ? stage + 512 : FAULT == few_bytes ? stage - 1024 : stage);
        if (FAULT == extra_arrival) mbarrier_arrive(full + k % stages);
        load_view(at, a, full + k % stages, k * 64, 0);
        load_view(at + 8192, b, full + k % stages, k * 64, 0);
      }
    return;
  }
  if (FAULT == other_registers && thread() < 192) registers_grow<200>();
  f32 d[32];
  for (int k = 0; k < steps; ++k) {
    u8* const at = s + k % stages * stage;
    mbarrier_wait(full + k % stages, u32(k / stages & 1) ^ (FAULT == consumer_parity ? 1 : 0));
    if (FAULT == half_a_warpgroup && wave() >= 6) continue;
    if (FAULT != no_fence) wgmma_fence();
    const int pattern = FAULT == swizzle ? 64 : 128;
    const u64 va = matrix_view(at + (FAULT == in_atom ? 128 : 0), 16, 8 * pattern, pattern), vb = matrix_view(at + 8192 - (FAULT == other_operands && wave() == 5 ? 1024 : 0), 16, 8 * pattern, pattern);
    UNROLL for (int q = 0; q < (FAULT == swizzle ? 2 : 4); ++q) wgmma<64>(d, matrix_view_step(va, q * 32), matrix_view_step(vb, q * 32), k + q != 0, bf16{});
    wgmma_commit();
    if (FAULT == touched && thread() == 130) d[3] += 1;
    if ((FAULT == early_release || FAULT == release_before_wait) && thread() == 128) mbarrier_arrive(empty + k % stages);
    if (FAULT == early_release) barrier(2, 128);  // the others' work takes time
    if (FAULT == early_release && k + 1 < steps) mbarrier_wait(full + (k + 1) % stages, u32((k + 1) / stages & 1));
    if (FAULT != no_wait) wgmma_wait<0>();
    if (FAULT != early_release && FAULT != release_before_wait && thread() == 128) mbarrier_arrive(empty + k % stages);
  }
  u8* const out = s + stages * stage;
  UNROLL for (int j = 0; j < 4; ++j) {
    u32 r[4];
    UNROLL for (int i = 0; i < 4; ++i) r[i] = pack_bf16(d[8 * j + 2 * i], d[8 * j + 2 * i + 1]);
    const int row = wave() % 4 * 16 + wave_lane() % 16, chunk = j * 2 + wave_lane() / 16;
    store_matrix(out + row * 128 + (chunk ^ (row & 7)) * 16, r);
  }
  if (FAULT == half_a_fence ? thread() == 128 : FAULT != no_proxy_fence) proxy_fence();
  barrier(1, 128);
  if (thread() == 128) {
    store_view(c, out, 0, 0);
    store_view_commit();
    if (FAULT == reused_store) for (int i = 0; i < 64; ++i) out[i] = 0;
    if (FAULT != no_store_wait) store_view_wait<0>();
  }
}
#define RING(FAULT) KERNEL_VIEWS(ring_##FAULT, 3, 3, 256, 1) { ring<FAULT>(VIEW(0), VIEW(1), VIEW(2)); }
RING(none) RING(no_proxy_fence) RING(half_a_fence) RING(early_release) RING(release_before_wait) RING(many_bytes) RING(few_bytes) RING(producer_parity) RING(consumer_parity) RING(swizzle) RING(touched)
RING(no_fence) RING(no_wait) RING(no_store_wait) RING(reused_store) RING(extra_arrival) RING(no_init) RING(no_init_done) RING(overwritten) RING(half_a_warpgroup)
RING(other_operands) RING(other_registers) RING(in_atom)

KERNEL(registers, 0, 384, 1) { registers_grow<232>(); }
KERNEL(odd_registers, 0, 128, 1) { registers_shrink<42>(); }
KERNEL(fewer_registers, 0, 128, 1) {
  registers_shrink<40>();
  registers_shrink<48>();
}

// Loads that ask for what cannot be.
#define LOAD(NAME, PLACE, VIEWED, ...)                                     \
  KERNEL_VIEWS(load_##NAME, 1, 1, 32, 1) {                                 \
    u8* const s = static_cast<u8*>(scratch);                               \
    Mbarrier* const m = reinterpret_cast<Mbarrier*>(s + 16384);            \
    if (thread() == 0) {                                                   \
      mbarrier_init(m, 1);                                                 \
      mbarrier_init_done();                                                \
      mbarrier_expect(m, 8192);                                            \
      load_view(s + PLACE, VIEWED, m, __VA_ARGS__);                        \
    }                                                                      \
    wave_barrier();                                                        \
    mbarrier_wait(m, 0);                                                   \
  }
LOAD(right, 0, VIEW(0), 0, 0)
LOAD(odd_place, 64, VIEW(0), 0, 0)
LOAD(past_scratch, 8320, VIEW(0), 0, 0)
LOAD(three_coordinates, 0, VIEW(0), 0, 0, 0)
LOAD(no_view, 0, VIEW(1), 0, 0)
KERNEL_VIEWS(load_and_leave, 1, 1, 32, 1) {
  Mbarrier* const m = reinterpret_cast<Mbarrier*>(static_cast<u8*>(scratch) + 16384);
  if (thread() == 0) {
    mbarrier_init(m, 1);
    mbarrier_init_done();
    mbarrier_expect(m, 8192);
    load_view(scratch, VIEW(0), m, 0, 0);
  }
}

// Two halves of a group in turn, by barriers at which one only counts.
KERNEL(turns, 1, 128, 1) {
  const int half = thread() / 64;
  if (half == 1) barrier_arrive(1, 128);
  for (int k = 0; k < 4; ++k) {
    barrier(1 + half, 128);
    if (thread() % 64 == 0) {
      i32* const next = ARG(i32, 0);
      next[1 + next[0]] = half;
      ++next[0];
    }
    if (!(half == 1 && k == 3)) barrier_arrive(2 - half, 128);
  }
}
KERNEL(turns_of_different_counts, 1, 128, 1) {
  if (thread() < 64) barrier(1, 96);
  else barrier_arrive(1, 128);
}

KERNEL_VIEWS_CLUSTER(leaves_early, 1, 0, 32, 1, 2) {
  static_cast<i32*>(scratch)[thread()] = cluster_rank();
  cluster_barrier();
  if (cluster_rank() == (ARG(i32, 0)[0] == 0 ? 1 : 0)) ARG(i32, 0)[thread() + 1] = load_remote(static_cast<i32*>(scratch) + thread(), cluster_rank() ^ 1);
}
KERNEL_VIEWS_CLUSTER(no_such_rank, 1, 0, 32, 1, 2) {
  cluster_barrier();
  ARG(i32, 0)[thread()] = load_remote(static_cast<i32*>(scratch) + thread(), 2);
}
KERNEL_VIEWS_CLUSTER(alone_at_the_barrier, 1, 0, 32, 1, 2) { if (cluster_rank() == 0) cluster_barrier(); }
)";

Rig& rig() {
  static Rig instance(kRing, [] {
    Options options = Rig::checked();
    options.seconds = 5;
    return options;
  }());
  return instance;
}

TensorView matrix(int argument, int64_t rows, int64_t columns) {
  TensorView view;
  view.argument = argument, view.element = ViewElement::bf16, view.swizzle = 128;
  view.extents = {columns, rows}, view.strides_bytes = {columns * 2}, view.box = {64, 64};
  return view;
}

std::string ring(const std::string& fault) {
  void* const a = rig().put(std::vector<uint16_t>(64 * 256, 0x3f80));
  void* const b = rig().put(std::vector<uint16_t>(64 * 256, 0x3f80));
  void* const c = rig().put(std::vector<uint16_t>(64 * 64));
  std::string said = rig().launch("ring_" + fault, {1, 256, 2 * 16384 + 8192 + 64}, {a, b, c}, {matrix(0, 64, 256), matrix(1, 64, 256), matrix(2, 64, 64)});
  if (!said.empty()) return said;
  for (const uint16_t code : rig().get<uint16_t>(c, 64 * 64)) EXPECT_EQ(code, 0x4380) << fault;  // 256
  return {};
}

TEST(EmulatorHopperFaults, the_kernel_that_breaks_no_rule_passes) { EXPECT_EQ(ring("none"), ""); }

TEST(EmulatorHopperFaults, what_threads_wrote_is_fenced_by_all_of_a_wave_before_a_box_is_stored) {
  EXPECT_SAYS(ring("no_proxy_fence"), "stores a box in line");
  EXPECT_SAYS(ring("no_proxy_fence"), "which was written since a proxy_fence() of the whole wave that wrote it");
  EXPECT_SAYS(ring("half_a_fence"), "which was written since a proxy_fence() of the whole wave that wrote it");
}

TEST(EmulatorHopperFaults, a_stage_is_not_overwritten_under_a_product) {
  const std::string said = ring("early_release");
  EXPECT_SAYS(said, "loads a box in line");
  EXPECT_SAYS(said, "to scratch + 0, which the product of line");
  EXPECT_SAYS(said, "may still read: nobody waited for it");
  EXPECT_SAYS(ring("release_before_wait"), "may still read: nobody waited for it");
}

TEST(EmulatorHopperFaults, a_wrong_number_of_bytes_is_named_by_its_barrier) {
  EXPECT_SAYS(ring("many_bytes"), "its threads wait for each other and none can go on: ");
  EXPECT_SAYS(ring("many_bytes"), "threads 128-255 in line");
  EXPECT_SAYS(ring("many_bytes"), "for parity 0 of the mbarrier at scratch + 40960 of line");
  EXPECT_SAYS(ring("many_bytes"), "(0 of 1 arrivals to come, 512 bytes to come)");
  EXPECT_SAYS(ring("few_bytes"), "(0 of 1 arrivals to come, 1024 bytes more than expected came)");
}

TEST(EmulatorHopperFaults, a_wrong_parity_ends_in_a_deadlock_that_says_who_waits_for_what) {
  EXPECT_SAYS(ring("producer_parity"), "for parity 0 of the mbarrier at scratch + 40976 of line");
  EXPECT_SAYS(ring("producer_parity"), "(1 of 1 arrivals to come)");
  EXPECT_NE(ring("consumer_parity"), "");
}

TEST(EmulatorHopperFaults, a_product_takes_its_operands_as_they_were_loaded) {
  EXPECT_SAYS(ring("swizzle"), "its operand A takes scratch + 0 for swizzled by 64 bytes, the box of line");
  EXPECT_SAYS(ring("swizzle"), "brought it swizzled by 128");
  EXPECT_SAYS(ring("in_atom"), "its operand A begins in row 1 of 8 that a swizzle of 128 bytes takes together");
}

TEST(EmulatorHopperFaults, accumulators_belong_to_the_machine_until_they_are_waited_for) {
  const std::string said = ring("touched");
  EXPECT_SAYS(said, "warpgroup 1 of group 0 waits in line");
  EXPECT_SAYS(said, "thread 2 of the warpgroup wrote an accumulator of the product of line");
  EXPECT_SAYS(ring("no_fence"), "no wgmma_fence() came between it and what used its accumulators before");
  EXPECT_NE(ring("no_wait"), "");
}

TEST(EmulatorHopperFaults, a_store_is_waited_for_before_its_place_is_used_again) {
  EXPECT_SAYS(ring("reused_store"), "its result depends on the order in which threads run");
  EXPECT_SAYS(ring("no_store_wait"), "ended with the box of line");
  EXPECT_SAYS(rig().launch("load_and_leave", {1, 32, 16384 + 64}, {rig().put(std::vector<uint16_t>(64 * 64))}, {matrix(0, 64, 64)}), "on its way: nobody waited for it");
}

TEST(EmulatorHopperFaults, barriers_in_scratch_are_made_before_they_are_used_and_count_what_was_said) {
  EXPECT_SAYS(ring("extra_arrival"), "one arrival too many at the mbarrier at scratch + 40960");
  EXPECT_SAYS(ring("no_init"), "the mbarrier at scratch + 40976, which nobody made with mbarrier_init()");
  EXPECT_SAYS(ring("no_init_done"), "before mbarrier_init_done()");
  EXPECT_SAYS(ring("overwritten"), "the mbarrier at scratch + 40968, which was overwritten");
}

TEST(EmulatorHopperFaults, a_warpgroup_does_the_same_together) {
  EXPECT_SAYS(ring("half_a_warpgroup"), "wgmma_wait in line");
  EXPECT_SAYS(ring("other_operands"), "the threads of the warpgroup give different operands");
}

TEST(EmulatorHopperFaults, registers_are_no_more_than_there_are_and_the_same_in_a_warpgroup) {
  EXPECT_SAYS(rig().launch("registers", {1, 384, 0}, {}), "the threads of group 0 hold 89088 registers together, and it has 65536");
  EXPECT_SAYS(rig().launch("odd_registers", {1, 128, 0}, {}), "42 is no multiple of 8 from 24 to 256");
  EXPECT_SAYS(rig().launch("fewer_registers", {1, 128, 0}, {}), "it has 40, and 48 are asked for");
  EXPECT_SAYS(ring("other_registers"), "the threads of warpgroup 1 of group 0 changed their registers differently");
}

TEST(EmulatorHopperFaults, a_load_names_what_cannot_be) {
  void* const x = rig().put(std::vector<uint16_t>(64 * 64));
  const auto load = [&](const std::string& name) { return rig().launch("load_" + name, {1, 32, 16384 + 64}, {x}, {matrix(0, 64, 64)}); };
  EXPECT_EQ(load("right"), "");
  EXPECT_SAYS(load("odd_place"), "its place in scratch is not aligned to 128 bytes");
  EXPECT_SAYS(load("past_scratch"), "the 8192 bytes of a box of view 0 do not lie in its group's scratch");
  EXPECT_SAYS(load("three_coordinates"), "it gives 3 coordinates, view 0 has 2");
  EXPECT_SAYS(load("no_view"), "its view is none of the launch's 1");
}

TEST(EmulatorHopperFaults, a_launch_is_held_to_its_views) {
  void* const x = rig().put(std::vector<uint16_t>(64 * 64));
  const auto launch = [&](const std::vector<TensorView>& views) { return rig().launch("load_right", {1, 32, 16384 + 64}, {x}, views); };
  EXPECT_SAYS(launch({}), "it is launched with 0 views, its text takes 1");
  EXPECT_SAYS(launch({matrix(1, 64, 64)}), "view 0: its argument 1 is none of the launch's 1");
  EXPECT_SAYS(launch({matrix(0, 65, 64)}), "view 0: its 8320 bytes reach past argument 0");
  EXPECT_SAYS(launch({matrix(0, 64, 60)}), "view 0: its stride of 120 bytes is no multiple of 16");
}

TEST(EmulatorHopperFaults, one_may_only_count_at_a_barrier) {
  void* const out = rig().put(std::vector<int32_t>(9));
  ASSERT_EQ(rig().launch("turns", {1, 128, 0}, {out}), "");
  EXPECT_EQ(rig().get<int32_t>(out, 9), (std::vector<int32_t>{8, 0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_SAYS(rig().launch("turns_of_different_counts", {1, 128, 0}, {out}), "different counts");
}

TEST(EmulatorHopperFaults, a_group_stays_while_its_cluster_reads_its_scratch) {
  for (const int32_t which : {0, 1}) {  // each order lets another one leave first
    void* const out = rig().put(std::vector<int32_t>(64, which));
    EXPECT_SAYS(rig().launch("leaves_early", {2, 32, 128}, {out}), "has ended");
  }
  void* const out = rig().put(std::vector<int32_t>(64));
  EXPECT_SAYS(rig().launch("no_such_rank", {2, 32, 128}, {out}), "the cluster has no rank 2");
  EXPECT_SAYS(rig().launch("no_such_rank", {3, 32, 128}, {out}), "launched with 3 groups, no multiple of its clusters of 2");
  EXPECT_SAYS(rig().launch("alone_at_the_barrier", {2, 32, 128}, {out}), "group 0: threads 0-31 at cluster_barrier() in line");
}

}  // namespace
}  // namespace rtx::backend::emulator

// What threads do together: barriers, shuffles, votes, asynchronous copies; and what becomes of kernels that get it wrong.
#include <cmath>
#include <numeric>

#include "backend/emulator/rig_testing.h"

namespace rtx::backend::emulator {
namespace {

const char* const kGroupKernels = R"(
// y = x summed over 256 threads by a tree in scratch
KERNEL(tree, 2, 256, 1) {
  f32* const s = static_cast<f32*>(scratch);
  const int t = thread();
  s[t] = ARG(const f32, 0)[group() * 256 + t];
  barrier();
  for (int by = 128; by > 0; by /= 2) {
    if (t < by) s[t] += s[t + by];
    barrier();
  }
  if (t == 0) ARG(f32, 1)[group()] = s[0];
}
KERNEL(tree_without_a_barrier, 2, 256, 1) {
  f32* const s = static_cast<f32*>(scratch);
  const int t = thread();
  s[t] = ARG(const f32, 0)[group() * 256 + t];
  barrier();
  for (int by = 128; by > 0; by /= 2) {
    if (t < by) s[t] += s[t + by];
  }
  if (t == 0) ARG(f32, 1)[group()] = s[0];
}
KERNEL(library_sum, 2, 256, 1) {
  f32 x = ARG(const f32, 0)[group() * 256 + thread()];
  x = group_reduce<256>(x, Sum{}, static_cast<f32*>(scratch));
  ARG(f32, 1)[group() * 256 + thread()] = x;
}
KERNEL(rotate, 1, 64, 1) {  // a barrier before the neighbour's number is read, none before it is overwritten
  i32* const s = static_cast<i32*>(scratch);
  s[thread()] = thread();
  barrier();
  const int next = s[(thread() + 1) % 64];
  ARG(i32, 0)[thread()] = next;
}
KERNEL(rotate_without_a_barrier, 1, 64, 1) {
  i32* const s = static_cast<i32*>(scratch);
  s[thread()] = thread();
  ARG(i32, 0)[thread()] = s[(thread() + 1) % 64];
}
KERNEL(rotate_twice_without_the_second_barrier, 1, 64, 1) {
  i32* const s = static_cast<i32*>(scratch);
  i32 mine = thread();
  for (int turn = 0; turn < 2; ++turn) {
    s[thread()] = mine;
    barrier();
    mine = s[(thread() + 1) % 64];  // the next turn overwrites what a neighbour may not have read yet
  }
  ARG(i32, 0)[thread()] = mine;
}
KERNEL(pairs, 1, 128, 1) {  // waves 0 and 1 meet at barrier 1, waves 2 and 3 at barrier 2, any number of times
  i32* const s = static_cast<i32*>(scratch);
  const int half = thread() / 64;
  int sum = 0;
  for (int turn = 0; turn < (half ? 5 : 3); ++turn) {
    s[thread()] = thread() + turn;
    barrier(1 + half, 64);
    sum += s[thread() ^ 32];
    barrier(1 + half, 64);
  }
  ARG(i32, 0)[thread()] = sum;
}
KERNEL(exchange, 4, 32, 1) {
  const int l = wave_lane();
  ARG(i32, 0)[l] = shuffle(l * 10, (l + 5) % 32);
  ARG(f64, 1)[l] = shuffle_xor(f64(l) + 0.5, 3);
  ARG(f32, 2)[l] = shuffle_down(f32(l), 4);
  const bool one = wave_any(l == 17), none = wave_any(l == 32), every = wave_all(l < 32), most = wave_all(l != 3);
  ARG(i32, 3)[l] = one + 2 * none + 4 * every + 8 * most;
}
KERNEL(wrong_lane, 1, 32, 1) { ARG(i32, 0)[wave_lane()] = shuffle_xor(wave_lane(), 4); }
KERNEL(short_wave, 1, 48, 1) { ARG(i32, 0)[thread()] = shuffle(thread(), 20); }

KERNEL(half_at_a_barrier, 1, 128, 1) {
  if (thread() < 64) barrier();
  ARG(i32, 0)[thread()] = 1;
}
KERNEL(two_barriers, 1, 64, 1) {
  if (thread() % 2 == 0) barrier();
  else { ARG(i32, 0)[thread()] = 1;
    barrier(); }
}
KERNEL(barriers_of_two_names, 0, 128, 1) {
  if (thread() < 64) barrier(1, 128);
  else barrier(2, 128);
}
KERNEL(counts_that_differ, 0, 96, 1) { barrier(3, thread() < 64 ? 96 : 64); }
KERNEL(half_a_wave_at_a_named_barrier, 0, 64, 1) {
  if (wave_lane() < 16) barrier(1, 32);
}
KERNEL(half_a_wave_shuffles, 1, 64, 1) {
  i32 x = thread();
  if (wave_lane() < 16) x = shuffle_xor(x, 1);
  ARG(i32, 0)[thread()] = x;
}
KERNEL(a_lane_has_ended, 1, 32, 1) {
  if (thread() == 7) return;
  ARG(i32, 0)[thread()] = wave_any(thread() == 3);
}
KERNEL(stops, 1, 32, 1) { if (thread() == 9) trap(); }

template <bool WAIT> DEVICE void copies() {
  u8* const s = static_cast<u8*>(scratch);
  const int t = thread();
  copy_async<16>(s + 16 * t, ARG(const u8, 0) + 16 * t);
  copy_async_commit();
  copy_async<8>(s + 4096 + 8 * t, ARG(const u8, 0) + 8 * t, 5);
  copy_async_commit();
  copy_async<4>(s + 8192 + 4 * t, ARG(const u8, 0) + 4 * t, 0);
  copy_async_commit();
  if (WAIT) copy_async_wait<0>();
  else copy_async_wait<2>();
  barrier();
  const int other = 63 - t;
  for (int k = 0; k < 16; ++k) ARG(u8, 1)[16 * other + k] = s[16 * other + k];
  for (int k = 0; k < 8; ++k) ARG(u8, 1)[4096 + 8 * other + k] = s[4096 + 8 * other + k];
  for (int k = 0; k < 4; ++k) ARG(u8, 1)[8192 + 4 * other + k] = s[8192 + 4 * other + k];
}
KERNEL(copy, 2, 64, 1) { copies<true>(); }
KERNEL(copy_without_waiting_enough, 2, 64, 1) { copies<false>(); }
KERNEL(copy_to_an_odd_place, 1, 32, 1) { copy_async<16>(static_cast<u8*>(scratch) + 16 * thread() + (thread() == 3 ? 8 : 0), ARG(const u8, 0)); }
KERNEL(copy_past_scratch, 1, 32, 1) { copy_async<4>(static_cast<u8*>(scratch) + 4 * thread() + 4, ARG(const u8, 0)); }
KERNEL(copy_overtaken, 1, 32, 1) {
  u32* const s = static_cast<u32*>(scratch);
  copy_async<4>(s + thread(), ARG(const u32, 0) + thread());
  copy_async_commit();
  barrier();
  s[31 - thread()] = 5;
  barrier();
  copy_async_wait<0>();
}
KERNEL(copy_forgotten, 1, 32, 1) {
  u32* const s = static_cast<u32*>(scratch);
  copy_async<4>(s + thread(), ARG(const u32, 0) + thread());
  barrier();
  s[31 - thread()] = 5;
}
KERNEL(copy_twice, 1, 32, 1) {
  copy_async<4>(static_cast<u32*>(scratch), ARG(const u32, 0));
  copy_async_commit();
  copy_async_wait<0>();
}
KERNEL(many_copies, 2, 32, 1) {  // a ring of three stages, as pipelines have it
  u8* const s = static_cast<u8*>(scratch);
  const int t = thread();
  u32 sum = 0;
  for (int k = 0; k < 2; ++k) { copy_async<4>(s + k * 128 + 4 * t, ARG(const u8, 0) + k * 128 + 4 * t); copy_async_commit(); }
  for (int k = 0; k < 2000; ++k) {
    copy_async_wait<1>();
    barrier();
    if (k + 2 < 2000) copy_async<4>(s + (k + 2) % 3 * 128 + 4 * t, ARG(const u8, 0) + (k + 2) * 128 + 4 * t);
    copy_async_commit();
    sum += *reinterpret_cast<u32*>(s + k % 3 * 128 + 4 * (31 - t)) * u32(k + 1);
  }
  ARG(u32, 1)[t] = sum;
}
)";

Rig& together_rig() {
  static Rig instance(kGroupKernels);
  return instance;
}

TEST(EmulatorTogether, a_tree_over_a_group_sums_as_on_paper) {
  std::vector<float> x(256 * 37);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000) - 300.f;
  void* const in = together_rig().put(x);
  void* const out = together_rig().put(std::vector<float>(37, NAN));
  ASSERT_EQ(together_rig().launch("tree", {37, 256, 1024}, {in, out}), "");
  const auto sums = together_rig().get<float>(out, 37);
  for (size_t g = 0; g < 37; ++g) EXPECT_EQ(sums[g], std::accumulate(x.begin() + 256 * g, x.begin() + 256 * (g + 1), 0.f)) << g;
}

TEST(EmulatorTogether, the_reduction_of_the_kernel_library_gives_every_thread_the_sum) {
  std::vector<float> x(512);
  std::iota(x.begin(), x.end(), 1.f);
  void* const in = together_rig().put(x);
  void* const out = together_rig().put(std::vector<float>(512));
  ASSERT_EQ(together_rig().launch("library_sum", {2, 256, 128}, {in, out}), "");
  const auto sums = together_rig().get<float>(out, 512);
  for (size_t i = 0; i < 512; ++i) EXPECT_EQ(sums[i], i < 256 ? 32896.f : 98432.f) << i;
}

TEST(EmulatorTogether, a_dropped_barrier_shows_in_one_of_two_orders) {
  void* const in = together_rig().put(std::vector<float>(256, 1.f));
  void* const out = together_rig().put(std::vector<float>(1));
  EXPECT_SAYS(together_rig().launch("tree_without_a_barrier", {1, 256, 1024}, {in, out}), "depends on the order in which threads run, first in byte ");
  void* const ring = together_rig().put(std::vector<int32_t>(64));
  EXPECT_EQ(together_rig().launch("rotate", {1, 64, 256}, {ring}), "");
  EXPECT_EQ(together_rig().get<int32_t>(ring, 64)[63], 0);
  EXPECT_SAYS(together_rig().launch("rotate_without_a_barrier", {1, 64, 256}, {ring}), "a barrier is missing");
  EXPECT_SAYS(together_rig().launch("rotate_twice_without_the_second_barrier", {1, 64, 256}, {ring}), "a barrier is missing");
}

TEST(EmulatorTogether, named_barriers_hold_their_own_waves_only) {
  void* const out = together_rig().put(std::vector<int32_t>(128));
  ASSERT_EQ(together_rig().launch("pairs", {1, 128, 512}, {out}), "");
  const auto sums = together_rig().get<int32_t>(out, 128);
  for (int t = 0; t < 128; ++t) EXPECT_EQ(sums[size_t(t)], t < 64 ? 3 * (t ^ 32) + 3 : 5 * (t ^ 32) + 10) << t;
}

TEST(EmulatorTogether, shuffles_and_votes_are_those_of_the_machine) {
  void* const a = together_rig().put(std::vector<int32_t>(32));
  void* const b = together_rig().put(std::vector<double>(32));
  void* const c = together_rig().put(std::vector<float>(32));
  void* const d = together_rig().put(std::vector<int32_t>(32));
  ASSERT_EQ(together_rig().launch("exchange", {1, 32, 0}, {a, b, c, d}), "");
  for (int l = 0; l < 32; ++l) {
    EXPECT_EQ(together_rig().get<int32_t>(a, 32)[size_t(l)], (l + 5) % 32 * 10);
    EXPECT_EQ(together_rig().get<double>(b, 32)[size_t(l)], (l ^ 3) + 0.5);
    EXPECT_EQ(together_rig().get<float>(c, 32)[size_t(l)], static_cast<float>(l < 28 ? l + 4 : l));
    EXPECT_EQ(together_rig().get<int32_t>(d, 32)[size_t(l)], 1 + 4);
  }
}

TEST(EmulatorTogether, a_wrong_lane_gives_wrong_numbers) {
  void* const out = together_rig().put(std::vector<int32_t>(32));
  ASSERT_EQ(together_rig().launch("wrong_lane", {1, 32, 0}, {out}), "");
  for (int l = 0; l < 32; ++l) EXPECT_NE(together_rig().get<int32_t>(out, 32)[size_t(l)], l ^ 8);
}

TEST(EmulatorTogether, a_lane_that_is_not_there_cannot_be_read) {
  void* const out = together_rig().put(std::vector<int32_t>(48));
  EXPECT_SAYS(together_rig().launch("short_wave", {1, 48, 0}, {out}), "reads lane 20 of a wave of 16");
}

TEST(EmulatorTogether, a_divergent_barrier_fails_with_who_waits_where) {
  void* const out = together_rig().put(std::vector<int32_t>(128));
  const std::string text = together_rig().launch("half_at_a_barrier", {3, 128, 0}, {out});
  EXPECT_SAYS(text, "kernel half_at_a_barrier failed in the emulator");
  EXPECT_SAYS(text, "threads 0-63 at barrier() in line ");
  EXPECT_SAYS(text, "threads 64-127 ended");
  EXPECT_SAYS(together_rig().launch("two_barriers", {1, 64, 0}, {out}), "the threads of wave 0 wait at different barriers");
  EXPECT_SAYS(together_rig().launch("barriers_of_two_names", {1, 128, 0}, {}), "threads 64-127 at barrier(2, 128)");
  EXPECT_SAYS(together_rig().launch("counts_that_differ", {1, 96, 0}, {}), "for different counts");
  EXPECT_SAYS(together_rig().launch("half_a_wave_at_a_named_barrier", {1, 64, 0}, {}), "wave 0 came to barrier 1");
}

TEST(EmulatorTogether, a_wave_that_is_not_whole_cannot_act_together) {
  void* const out = together_rig().put(std::vector<int32_t>(64));
  const std::string text = together_rig().launch("half_a_wave_shuffles", {1, 64, 0}, {out});
  EXPECT_SAYS(text, "threads 0-15 in a shuffle in line ");
  EXPECT_SAYS(text, "threads 16-31 ended");
  EXPECT_SAYS(together_rig().launch("a_lane_has_ended", {1, 32, 0}, {out}), "thread 7 ended");
}

TEST(EmulatorTogether, a_trap_names_its_thread) {
  EXPECT_SAYS(together_rig().launch("stops", {1, 32, 0}, {nullptr}), "thread 9 of group 0 called trap() in line ");
}

TEST(EmulatorTogether, a_failed_launch_leaves_the_device_usable) {
  void* const in = together_rig().put(std::vector<float>(256, 1.f));
  void* const out = together_rig().put(std::vector<float>(1));
  void* const other = together_rig().put(std::vector<int32_t>(128));
  EXPECT_NE(together_rig().launch("half_at_a_barrier", {3, 128, 0}, {other}), "");
  ASSERT_EQ(together_rig().launch("tree", {1, 256, 1024}, {in, out}), "");
  EXPECT_EQ(together_rig().get<float>(out, 1)[0], 256.f);
}

TEST(EmulatorCopies, arrive_when_they_are_waited_for_with_zeros_behind_what_is_valid) {
  std::vector<uint8_t> x(1024);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 7 + 1);
  void* const in = together_rig().put(x);
  void* const out = together_rig().put(std::vector<uint8_t>(8192 + 256));
  ASSERT_EQ(together_rig().launch("copy", {1, 64, 8192 + 256}, {in, out}), "");
  const auto y = together_rig().get<uint8_t>(out, 8192 + 256);
  for (size_t i = 0; i < 1024; ++i) EXPECT_EQ(y[i], x[i]) << i;
  for (size_t i = 0; i < 512; ++i) EXPECT_EQ(y[4096 + i], i % 8 < 5 ? x[i] : 0) << i;
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(y[8192 + i], 0) << i;
}

TEST(EmulatorCopies, what_was_not_waited_for_is_not_there) {
  void* const in = together_rig().put(std::vector<uint8_t>(1024, 1));
  void* const out = together_rig().put(std::vector<uint8_t>(8192 + 256));
  ASSERT_EQ(together_rig().launch("copy_without_waiting_enough", {1, 64, 8192 + 256}, {in, out}), "");
  const auto y = together_rig().get<uint16_t>(out, 4096 + 128);
  EXPECT_EQ(y[0], 0x0101);
  EXPECT_EQ(y[2048], 0x7ff7);  // a NaN as f16, and part of one as f32
  EXPECT_EQ(y[4096], 0x7ff7);
}

TEST(EmulatorCopies, have_aligned_places_inside_scratch) {
  void* const in = together_rig().put(std::vector<uint8_t>(1024, 1));
  EXPECT_SAYS(together_rig().launch("copy_to_an_odd_place", {1, 32, 1024}, {in}), "thread 3 of group 0 starts a copy");
  EXPECT_SAYS(together_rig().launch("copy_past_scratch", {1, 32, 128}, {in}), "outside of its group's scratch");
}

TEST(EmulatorCopies, are_not_overtaken_by_stores_to_their_place) {
  void* const in = together_rig().put(std::vector<uint32_t>(32, 1));
  EXPECT_SAYS(together_rig().launch("copy_overtaken", {1, 32, 128}, {in}), "to a place that was written meanwhile");
  EXPECT_SAYS(together_rig().launch("copy_forgotten", {1, 32, 128}, {in}), "never waited for its copy of line ");
  EXPECT_EQ(together_rig().launch("copy_twice", {1, 32, 128}, {in}), "");
}

TEST(EmulatorCopies, may_be_pipelined_for_as_long_as_a_kernel_likes) {
  std::vector<uint32_t> x(2000 * 32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint32_t>(i * 2654435761u);
  void* const in = together_rig().put(x);
  void* const out = together_rig().put(std::vector<uint32_t>(32));
  ASSERT_EQ(together_rig().launch("many_copies", {1, 32, 384}, {in, out}), "");
  const auto sums = together_rig().get<uint32_t>(out, 32);
  for (size_t t = 0; t < 32; ++t) {
    uint32_t expected = 0;
    for (size_t k = 0; k < 2000; ++k) expected += x[k * 32 + 31 - t] * static_cast<uint32_t>(k + 1);
    EXPECT_EQ(sums[t], expected);
  }
}

}  // namespace
}  // namespace rtx::backend::emulator

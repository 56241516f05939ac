// Kernels that break the machine's rules alone: each ends its launch with a sentence, and the process and the device go on.
#include "backend/emulator/memory.h"
#include "backend/emulator/rig_testing.h"

namespace rtx::backend::emulator {
namespace {

const char* const kFaultKernels = R"(
KERNEL(store, 1, 64, 1) { ARG(i32, 0)[group() * 64 + thread()] = thread(); }
KERNEL(off_by_one, 1, 64, 1) { ARG(i32, 0)[thread() + 1] = thread(); }
KERNEL(one_before, 1, 64, 1) { ARG(i32, 0)[thread() - 1] = thread(); }
KERNEL(scratch_past, 0, 32, 1) { static_cast<i32*>(scratch)[thread() + 1] = 1; }
KERNEL(scratch_before, 0, 32, 1) { static_cast<i32*>(scratch)[thread() - 1] = 1; }
KERNEL(unwritten, 1, 32, 1) { ARG(f32, 0)[thread()] = static_cast<f32*>(scratch)[thread()]; }
KERNEL(far, 1, 32, 1) { if (thread() == 5) ARG(i32, 0)[1 << 14] = 1; }
KERNEL(null, 1, 32, 1) { if (thread() == 6) *ARG(i32, 0) = 1; }
KERNEL(endless, 1, 64, 1) {
  volatile i32* const flag = ARG(volatile i32, 0);
  while (flag[0] == 0) {}
}
KERNEL(endless_with_barriers, 1, 64, 1) {
  volatile i32* const flag = ARG(volatile i32, 0);
  while (flag[0] == 0) barrier();
}
__attribute__((noinline)) int deep(int n) {
  volatile char room[1024];
  room[n % 1024] = char(n);
  return deep(n + 1) + room[n % 1024];
}
KERNEL(deep_stack, 1, 32, 1) { ARG(i32, 0)[thread()] = deep(0); }
KERNEL(divides, 1, 32, 1) { ARG(i32, 0)[thread()] = 7 / ARG(volatile i32, 0)[thread()]; }
KERNEL(misaligned, 1, 32, 1) {
  const Bytes<16> x = load_bytes<16>(ARG(u8, 0) + (thread() == 3 ? 4 : 0));
  if (x.word[0] == 12345u) ARG(u32, 0)[0] = 1;
}
KERNEL(two_writers, 1, 64, 1) { ARG(i32, 0)[0] = thread(); }
KERNEL(two_groups, 1, 32, 1) { if (thread() == 0) ARG(i32, 0)[0] = i32(group()); }
)";

Rig& faults_rig() {
  static Rig instance(kFaultKernels, Rig::checked());
  return instance;
}

// After a fault: the device still computes.
void expect_usable() {
  void* const out = faults_rig().put(std::vector<int32_t>(128, -1));
  ASSERT_EQ(faults_rig().launch("store", {2, 64, 0}, {out}), "");
  EXPECT_EQ(faults_rig().get<int32_t>(out, 128)[127], 63);
}

TEST(EmulatorFaults, an_off_by_one_store_is_caught_behind_its_buffer_and_before_it) {
  void* const out = faults_rig().put(std::vector<int32_t>(64));
  EXPECT_SAYS(faults_rig().launch("off_by_one", {1, 64, 0}, {out}), "argument 0: 0 bytes past the end of an allocation of 256 bytes something was written");
  EXPECT_SAYS(faults_rig().launch("one_before", {1, 64, 0}, {out}), "argument 0: 1 bytes before an allocation of 256 bytes");
  expect_usable();
}

TEST(EmulatorFaults, scratch_that_is_overrun_names_its_group) {
  EXPECT_SAYS(faults_rig().launch("scratch_past", {1, 32, 128}, {}), "group 0 wrote past its 128 bytes of scratch, 0 bytes from its end");
  EXPECT_SAYS(faults_rig().launch("scratch_before", {1, 32, 128}, {}), "wrote before its 128 bytes of scratch, 1 bytes from its start");
  EXPECT_SAYS(faults_rig().launch("scratch_past", {1, 32, 0}, {}), "wrote past its 0 bytes of scratch");
  EXPECT_EQ(faults_rig().launch("scratch_past", {1, 32, 132}, {}), "");
}

TEST(EmulatorFaults, scratch_that_nobody_wrote_is_nan_in_every_group) {
  void* const out = faults_rig().put(std::vector<float>(32));
  ASSERT_EQ(faults_rig().launch("unwritten", {1, 32, 128}, {out}), "");
  for (const float x : faults_rig().get<float>(out, 32)) EXPECT_NE(x, x);
}

TEST(EmulatorFaults, a_wild_address_names_its_thread_and_the_nearest_memory) {
  void* const out = faults_rig().put(std::vector<int32_t>(64));
  const std::string text = faults_rig().launch("far", {1, 32, 0}, {out});
  EXPECT_SAYS(text, "thread 5 of group 0 touched memory that is not its own: ");
  EXPECT_SAYS(faults_rig().launch("null", {1, 32, 0}, {nullptr}), "thread 6 of group 0 touched memory that is not its own");
  expect_usable();
}

TEST(EmulatorFaults, an_endless_loop_ends_at_its_time_with_and_without_barriers) {
  Options impatient = Rig::checked();
  impatient.seconds = 0.3;
  Rig rig(kFaultKernels, impatient);
  void* const flag = rig.put(std::vector<int32_t>(64));
  EXPECT_SAYS(rig.launch("endless", {1, 64, 0}, {flag}), "of group 0 did not end within its time");
  EXPECT_SAYS(rig.launch("endless_with_barriers", {1, 64, 0}, {flag}), "did not end within its time");
  EXPECT_SAYS(rig.launch("endless", {16, 64, 0}, {flag}), "did not end within its time");
  expect_usable();
}

TEST(EmulatorFaults, a_stack_that_overflows_and_a_division_by_zero_are_the_launchs_end) {
  void* const out = faults_rig().put(std::vector<int32_t>(32));
  EXPECT_SAYS(faults_rig().launch("deep_stack", {1, 32, 0}, {out}), "used up its stack of 256 KiB");
  EXPECT_SAYS(faults_rig().launch("divides", {1, 32, 0}, {out}), "divided an integer by zero");
  expect_usable();
}

TEST(EmulatorFaults, whole_accesses_are_aligned) {
  void* const out = faults_rig().put(std::vector<uint32_t>(64));
  EXPECT_SAYS(faults_rig().launch("misaligned", {1, 32, 0}, {out}), "thread 3 of group 0 moves 16 bytes at once");
}

TEST(EmulatorFaults, two_threads_or_two_groups_that_write_one_place_are_caught) {
  void* const out = faults_rig().put(std::vector<int32_t>(64));
  EXPECT_SAYS(faults_rig().launch("two_writers", {1, 64, 0}, {out}), "first in byte 0 of argument 0");
  Options alone = Rig::checked();
  alone.threads = 1;
  Rig one(kFaultKernels, alone);
  void* const there = one.put(std::vector<int32_t>(64));
  EXPECT_SAYS(one.launch("two_groups", {8, 32, 0}, {there}), "two threads write one place");
}

TEST(EmulatorFaults, a_launch_is_held_to_its_text_and_to_the_arch) {
  void* const out = faults_rig().put(std::vector<int32_t>(256));
  EXPECT_SAYS(faults_rig().launch("store", {1, 128, 0}, {out}), "groups of 128 threads, its text allows 64");
  EXPECT_SAYS(faults_rig().launch("store", {1, 64, 1 << 20}, {out}), "1048576 bytes of scratch, a group of sm_90a has 232448");
  EXPECT_SAYS(faults_rig().launch("store", {1, 64, 0}, {out, out}), "2 arguments, its text takes 1");
  int here = 0;
  EXPECT_SAYS(faults_rig().launch("store", {1, 64, 0}, {&here}), "argument 0 is no device memory");
}

TEST(EmulatorFaults, copies_of_the_host_stay_inside_an_allocation) {
  auto& device = faults_rig().device();
  void* const memory = faults_rig().put(std::vector<int32_t>(16));
  std::vector<int32_t> host(64);
  EXPECT_FALSE(device.copy_in(memory, host.data(), 65, nullptr).ok());
  EXPECT_FALSE(device.copy_out(host.data(), memory, 65, nullptr).ok());
  EXPECT_FALSE(device.fill(static_cast<std::byte*>(memory) + 60, std::byte{0}, 5, nullptr).ok());
  EXPECT_FALSE(device.copy_out(host.data(), host.data() + 32, 4, nullptr).ok());
  EXPECT_TRUE(device.copy_in(memory, host.data(), 64, nullptr).ok());
  EXPECT_FALSE(device.host_addressable());
}

TEST(EmulatorFaults, memory_remembers_damage_until_somebody_asks) {
  Memory memory;
  auto got = memory.allocate(100);
  ASSERT_TRUE(got.ok());
  auto* const bytes = static_cast<std::byte*>(*got);
  EXPECT_EQ(memory.damage(), "");
  bytes[100] = std::byte{1};
  EXPECT_SAYS(memory.damage(), "0 bytes past the end of an allocation of 100 bytes");
  EXPECT_EQ(memory.damage(), "");
  bytes[-8] = std::byte{1};
  memory.release(bytes);
  EXPECT_SAYS(memory.damage(), "8 bytes before an allocation of 100 bytes");
  memory.release(bytes);
  EXPECT_SAYS(memory.damage(), "not allocated");
}

}  // namespace
}  // namespace rtx::backend::emulator

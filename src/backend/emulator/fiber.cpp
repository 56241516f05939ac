#include "backend/emulator/fiber.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#ifdef RTX_FIBER_SHADOW
#include <sanitizer/asan_interface.h>
#endif

#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.globl rtx_emulator_switch
.type rtx_emulator_switch, @function
rtx_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size rtx_emulator_switch, .-rtx_emulator_switch

.p2align 4
.globl rtx_emulator_begin
.type rtx_emulator_begin, @function
rtx_emulator_begin:
  movq %r12, %rdi
  callq *%r13
  ud2
.size rtx_emulator_begin, .-rtx_emulator_begin
)");
#elif defined(__aarch64__)
asm(R"(
.text
.p2align 4
.globl rtx_emulator_switch
.type rtx_emulator_switch, %function
rtx_emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size rtx_emulator_switch, .-rtx_emulator_switch

.p2align 4
.globl rtx_emulator_begin
.type rtx_emulator_begin, %function
rtx_emulator_begin:
  mov x0, x19
  blr x20
  brk #1
.size rtx_emulator_begin, .-rtx_emulator_begin
)");
#else
#error "the emulator has no fiber switch for this processor"
#endif

extern "C" void rtx_emulator_begin();

namespace rtx::backend::emulator {

namespace {

constexpr size_t kPage = 16 << 10;  // at least a page of any system this runs on

}  // namespace

Stacks::~Stacks() { unmap(); }

void Stacks::unmap() {
  if (!mapping_) return;
#ifdef RTX_FIBER_SHADOW
  __asan_unpoison_memory_region(mapping_, mapping_bytes_);  // others get these addresses
#endif
  munmap(mapping_, mapping_bytes_);
  mapping_ = first_ = nullptr;
  count_ = 0;
}

void Stacks::clean([[maybe_unused]] int k) const {
#ifdef RTX_FIBER_SHADOW
  __asan_unpoison_memory_region(bottom(k) + kPage, rtx_emulation::kStackBytes - kPage);
#endif
}

Status Stacks::reserve(int count) {
  if (count <= count_) return success();
  unmap();
  constexpr size_t stack = rtx_emulation::kStackBytes;
  mapping_bytes_ = (static_cast<size_t>(count) + 1) * stack;
  void* got = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return error_of(ErrorKind::device, "cannot make " + std::to_string(count) + " stacks for emulated threads", std::strerror(errno));
  mapping_ = static_cast<std::byte*>(got);
#if defined(MADV_NOHUGEPAGE)
  (void)madvise(mapping_, mapping_bytes_, MADV_NOHUGEPAGE);  // a thread touches a page or two of its stack
#endif
  first_ = mapping_ + (stack - reinterpret_cast<uintptr_t>(mapping_) % stack) % stack;
  for (int k = 0; k < count; ++k)
    if (mprotect(bottom(k), kPage, PROT_NONE) != 0) return error_of(ErrorKind::device, "cannot guard the stacks of emulated threads", std::strerror(errno));
  count_ = count;
  return success();
}

void* Stacks::start(int k, void (*entry)(void*), void* argument) const {
  // Stacks lie at equal distances: without a shift of their own, all threads' frames would share a few sets of the first cache.
  std::byte* top = bottom(k) + rtx_emulation::kStackBytes - rtx_emulation::kThreadBytes - static_cast<size_t>(k % 32) * 128;
#if defined(__x86_64__)
  // r15 r14 r13 r12 rbx rbp, return address; rtx_emulator_begin is entered with rsp 16-byte aligned, so its call aligns the entry.
  void** frame = reinterpret_cast<void**>(top) - 9;
  std::memset(frame, 0, 9 * sizeof(void*));
  frame[2] = reinterpret_cast<void*>(entry);
  frame[3] = argument;
  frame[6] = reinterpret_cast<void*>(&rtx_emulator_begin);
#else
  void** frame = reinterpret_cast<void**>(top) - 20;
  std::memset(frame, 0, 20 * sizeof(void*));
  frame[0] = argument;                                        // x19
  frame[1] = reinterpret_cast<void*>(entry);                  // x20
  frame[11] = reinterpret_cast<void*>(&rtx_emulator_begin);  // x30
#endif
  return frame;
}

int Stacks::overflowed(const void* address) const {
  const auto at = static_cast<const std::byte*>(address);
  if (count_ == 0 || at < first_ || at >= bottom(count_)) return -1;
  const auto offset = static_cast<size_t>(at - first_);
  return offset % rtx_emulation::kStackBytes < kPage ? static_cast<int>(offset / rtx_emulation::kStackBytes) : -1;
}

}  // namespace rtx::backend::emulator

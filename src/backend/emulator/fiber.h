#pragma once
// Fibers: stacks that one OS thread switches between by hand. A switch saves the registers a call must keep and nothing else
// (about 10 ns; ucontext costs a system call).
#include <cstddef>
#include <cstdint>

#include "backend/emulator/prelude_abi.h"
#include "base/result.h"

#if defined(__SANITIZE_ADDRESS__)
#define RTX_FIBER_SHADOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RTX_FIBER_SHADOW 1
#endif
#endif

namespace rtx::backend::emulator {

extern "C" void rtx_emulator_switch(void** save, void* to);

// Stacks with a guard page below each. Pages are committed as they are touched and kept.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  // At least `count` stacks; those that are there stay where they are only if there were enough.
  Status reserve(int count);
  std::byte* bottom(int k) const { return first_ + static_cast<size_t>(k) * rtx_emulation::kStackBytes; }
  rtx_emulation::Thread& thread(int k) const {
    return *reinterpret_cast<rtx_emulation::Thread*>(bottom(k) + rtx_emulation::kStackBytes - rtx_emulation::kThreadBytes);
  }
  // Stack pointer of a fiber that calls `entry(argument)` when it is first switched to; `entry` never returns.
  void* start(int k, void (*entry)(void*), void* argument) const;
  // What the address sanitizer remembers of frames that were given up is forgotten.
  void clean(int k) const;
  // The stack on whose guard page `address` lies, or -1.
  int overflowed(const void* address) const;

 private:
  void unmap();

  std::byte* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  std::byte* first_ = nullptr;
  int count_ = 0;
};

}  // namespace rtx::backend::emulator

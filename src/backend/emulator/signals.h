#pragma once
// Faults of emulated kernels end a launch, not the process: the handlers leave the fiber that was interrupted for good. A signal
// that does not come from a kernel goes to whoever handled it before.
#include <csignal>
#include <cstddef>

#include "backend/emulator/crew.h"

namespace rtx::backend::emulator {

constexpr int kInterrupt = SIGURG;  // the watchdog's; ignored by default, so a late one does nothing
constexpr size_t kSignalStackBytes = 64 << 10;

// Once in a process, before the first group runs.
void install_signal_handlers();

// The calling thread's stack for handlers: a fiber's own may be what overflowed.
class SignalStack {
 public:
  SignalStack(void* memory, size_t bytes);
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  stack_t before_{};
};

struct Crew::Signal {
  static void enter(Crew* crew);  // its fibers run on the calling thread from here on
  static void leave();
  static void handle(int number, const void* address);
};

}  // namespace rtx::backend::emulator

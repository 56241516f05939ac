#include "backend/emulator/signals.h"

#include <mutex>

namespace rtx::backend::emulator {

namespace {

thread_local Crew* running = nullptr;

constexpr int kCaught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, kInterrupt};
struct sigaction before[64];

void pass_on(int number, siginfo_t* info, void* context) {
  const struct sigaction& old = before[number];
  if (old.sa_flags & SA_SIGINFO) {
    old.sa_sigaction(number, info, context);
  } else if (old.sa_handler == SIG_DFL) {
    if (number != kInterrupt) signal(number, SIG_DFL);  // the instruction runs again and ends the process as it would have
  } else if (old.sa_handler != SIG_IGN) {
    old.sa_handler(number);
  }
}

void on_signal(int number, siginfo_t* info, void* context) {
  Crew::Signal::handle(number, number == kInterrupt ? nullptr : info->si_addr);
  pass_on(number, info, context);
}

}  // namespace

void install_signal_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;  // the handler may never return
    sigemptyset(&action.sa_mask);
    for (const int number : kCaught) sigaction(number, &action, &before[number]);
  });
}

SignalStack::SignalStack(void* memory, size_t bytes) {
  stack_t mine{};
  mine.ss_sp = memory;
  mine.ss_size = bytes;
  sigaltstack(&mine, &before_);
}
SignalStack::~SignalStack() { sigaltstack(&before_, nullptr); }

void Crew::Signal::enter(Crew* crew) { running = crew; }
void Crew::Signal::leave() { running = nullptr; }
void Crew::Signal::handle(int number, const void* address) {
  if (running) running->catch_signal(number, address);
}

}  // namespace rtx::backend::emulator

#include "rtx/interrupt.h"

#include <signal.h>
#include <unistd.h>

namespace rtx::tools {

namespace {

std::atomic<bool> flag{false};

void on_signal(int) {
  if (flag.exchange(true)) _exit(130);
}

}  // namespace

const std::atomic<bool>& interrupted() { return flag; }

void watch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe and a file at its size limit are output errors, not deaths.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

}  // namespace rtx::tools

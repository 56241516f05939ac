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
  signal(SIGPIPE, SIG_IGN);  // a closed pipe is an output error, not a death
}

}  // namespace rtx::tools

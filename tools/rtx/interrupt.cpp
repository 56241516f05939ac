#include "rtx/interrupt.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

namespace rtx::tools {

namespace {

constexpr int kInterrupted = 130;
constexpr long kPatienceNanoseconds = 850'000'000;

std::atomic<bool> flag{false};
std::atomic<int> writing{0};
timer_t patience;
bool has_timer = false;

void start_patience() {
  if (!has_timer) return;
  struct itimerspec when {};
  when.it_value.tv_nsec = kPatienceNanoseconds;
  timer_settime(patience, 0, &when, nullptr);
}

// Both run as signal handlers: nothing but what those may call.
void on_signal(int) {
  if (flag.exchange(true)) _exit(kInterrupted);
  start_patience();
}
void on_patience_over(int) {
  if (writing.load() > 0) return;
  static const char words[] = "error: interrupted\n  kernels tuned so far are kept in the cache\n  fix: run the command again to go on\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
  _exit(kInterrupted);
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

const std::atomic<bool>& interrupted() { return flag; }

void watch_interrupts() {
  struct sigevent event {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  has_timer = timer_create(CLOCK_MONOTONIC, &event, &patience) == 0;
  handle(SIGALRM, on_patience_over);
  handle(SIGINT, on_signal);
  handle(SIGTERM, on_signal);
  // A closed pipe and a file at its size limit are output errors, not deaths.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

Uninterrupted::Uninterrupted() { ++writing; }
Uninterrupted::~Uninterrupted() {
  if (--writing == 0 && flag.load()) start_patience();
}

}  // namespace rtx::tools

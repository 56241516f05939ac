#pragma once
// Ctrl-C: the first sets a flag that long work looks at, so that what was done is kept and nothing is left behind. Work that does not
// look in time (an interpreter inside a large product, a library) is ended when the second that people are promised is over; the second
// Ctrl-C ends it at once.
#include <atomic>

namespace rtx::tools {

const std::atomic<bool>& interrupted();
void watch_interrupts();

// While one stands, time does not end the process: a file of the user's is being written, and is finished first.
class Uninterrupted {
 public:
  Uninterrupted();
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;
};

}  // namespace rtx::tools

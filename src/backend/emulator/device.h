#pragma once
// The emulator's device: groups spread over the host's threads, a group's threads as fibers of one of them. It behaves as a GPU does
// for its callers (memory is not host memory to them) and times mean nothing.
//
// A launch fails with a sentence when threads of a group wait for each other forever, lanes do different things together, scratch or
// an argument's memory is overrun, memory is touched that is nobody's, an instruction gets a misaligned or foreign address, a rule
// of asynchronous work is broken (docs/adr/0011), or its time is up. What it cannot see: a race whose two outcomes agree in both orders, reads beyond an argument that stay inside its guard
// zone (they give NaN), plain reads of another thread's scratch that a barrier should have ordered but that happen to come late enough.
#include <memory>
#include <string>

#include "backend/device.h"

namespace rtx::backend::emulator {

struct Options {
  std::string arch;   // empty: sm_90a
  int threads = 0;    // 0: all the process may run on
  // Each launch runs twice, in opposite orders of threads and groups, and both must give the same bytes. Launches whose arguments
  // are larger than `check_bytes` together run once.
  bool check = false;
  int64_t check_bytes = int64_t{512} << 20;
  double seconds = 60;  // a launch, then it fails
};

// Kind user for an arch that is none.
Result<std::shared_ptr<Device>> make_device(const Options& options);

}  // namespace rtx::backend::emulator

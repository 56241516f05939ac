#pragma once
// Work on the host split over threads that live as long as the call: for references and checks, not for kernels.
#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace rtx {

// Cores that this process may run on.
inline int usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// f(begin, end) on contiguous parts of [0, count), on at most `threads` threads; 0: as many as may run.
template <class F>
void in_parallel(int64_t count, int threads, F&& f) {
  const int64_t parts = std::clamp<int64_t>(threads > 0 ? threads : usable_threads(), 1, std::max<int64_t>(count, 1));
  std::vector<std::thread> helpers;
  for (int64_t p = 1; p < parts; ++p) {
    helpers.emplace_back([&f, p, parts, count] { f(count * p / parts, count * (p + 1) / parts); });
  }
  f(int64_t{0}, count / parts);
  for (auto& helper : helpers) helper.join();
}

}  // namespace rtx

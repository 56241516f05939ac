#include "backend/emulator/watchdog.h"

#include <algorithm>

namespace rtx::backend::emulator {

namespace {

constexpr auto kStep = std::chrono::milliseconds(50);

}  // namespace

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Watchdog::Watch::Watch(Watchdog& dog, Run& run, double seconds) : dog_(dog), run_(run) {
  const std::lock_guard lock(dog_.mutex_);
  dog_.entries_.push_back({&run, Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))});
  if (!dog_.thread_.joinable()) dog_.thread_ = std::thread([&dog] { dog.guard(); });
  if (dog_.asleep_) dog_.changed_.notify_all();
}
Watchdog::Watch::~Watch() {
  const std::lock_guard lock(dog_.mutex_);
  const auto mine = std::find_if(dog_.entries_.begin(), dog_.entries_.end(), [&](const Entry& entry) { return entry.run == &run_; });
  dog_.entries_.erase(mine);
}

void Watchdog::guard() {
  std::unique_lock lock(mutex_);
  int idle = 0;
  while (!ending_) {
    // Launches follow each other: only after a second without one is it worth a wake-up.
    if (entries_.empty() && ++idle > 20) {
      asleep_ = true;
      changed_.wait(lock, [&] { return ending_ || !entries_.empty(); });
      asleep_ = false;
    }
    if (!entries_.empty()) idle = 0;
    changed_.wait_for(lock, kStep, [&] { return ending_; });
    const auto now = Clock::now();
    for (const Entry& entry : entries_)
      if (now >= entry.deadline) entry.run->interrupt();  // again and again: a thread inside a hook lets it pass
  }
}

}  // namespace rtx::backend::emulator

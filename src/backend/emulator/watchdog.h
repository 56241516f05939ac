#pragma once
// Watchdog: ends launches whose time is up. It sleeps while nothing runs.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/emulator/crew.h"

namespace rtx::backend::emulator {

class Watchdog {
 public:
  Watchdog() = default;
  ~Watchdog();

  // `run` is watched while the returned object lives.
  class Watch {
   public:
    Watch(Watchdog& dog, Run& run, double seconds);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    Watchdog& dog_;
    Run& run_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Run* run;
    Clock::time_point deadline;
  };
  void guard();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> entries_;
  bool ending_ = false, asleep_ = false;
  std::thread thread_;
};

}  // namespace rtx::backend::emulator

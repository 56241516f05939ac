#include "backend/cpu/thread_pool.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace rtx::backend::cpu {

namespace {

// About 50 microseconds on current cores: longer than the gap between two launches, shorter than anybody notices.
constexpr int kSpins = 4000;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Scratch of the calling thread: grows, never shrinks, so that the steady state allocates nothing.
void* thread_scratch(int64_t bytes) {
  struct Release {
    void operator()(void* pointer) const { std::free(pointer); }
  };
  thread_local std::unique_ptr<void, Release> memory;
  thread_local int64_t size = 0;
  if (bytes > size) {
    memory.reset(std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64)));
    size = memory ? bytes : 0;
  }
  return memory.get();
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  ending_ = true;
  generation_.fetch_add(1);
  generation_.notify_all();
  for (auto& worker : workers_) worker.join();
}

bool ThreadPool::take_part() {
  void* scratch = nullptr;
  if (job_.scratch_bytes > 0 && !(scratch = thread_scratch(job_.scratch_bytes))) {
    out_of_memory_ = true;
    return false;
  }
  for (;;) {
    const int64_t begin = next_.fetch_add(job_.chunk, std::memory_order_relaxed);
    if (begin >= job_.groups) return true;
    job_.kernel(job_.arguments, begin, std::min(begin + job_.chunk, job_.groups), scratch);
  }
}

void ThreadPool::work() {
  uint32_t seen = 0;
  for (;;) {
    uint32_t now = generation_.load(std::memory_order_acquire);
    for (int spin = 0; now == seen && spin < kSpins; ++spin) {
      pause();
      now = generation_.load(std::memory_order_acquire);
    }
    while (now == seen) {
      generation_.wait(seen, std::memory_order_acquire);
      now = generation_.load(std::memory_order_acquire);
    }
    seen = now;
    if (ending_) return;
    take_part();
    running_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

bool ThreadPool::run(Kernel kernel, void* const* arguments, int64_t groups, int64_t scratch_bytes) {
  if (groups <= 0) return true;
  std::unique_lock lock(busy_, std::try_to_lock);
  if (groups == 1 || workers_.empty() || !lock.owns_lock()) {
    void* scratch = nullptr;
    if (scratch_bytes > 0 && !(scratch = thread_scratch(scratch_bytes))) return false;
    kernel(arguments, 0, groups, scratch);
    return true;
  }
  // Chunks small enough to balance, large enough that the shared counter is no cost.
  job_ = {kernel, arguments, groups, std::max<int64_t>(1, groups / (threads() * 8)), scratch_bytes};
  out_of_memory_ = false;
  next_.store(0, std::memory_order_relaxed);
  running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_acq_rel);
  generation_.notify_all();
  take_part();
  for (int spin = 0; running_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins) pause();
    else std::this_thread::yield();
  }
  return !out_of_memory_;
}

}  // namespace rtx::backend::cpu

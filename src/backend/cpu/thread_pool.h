#pragma once
// ThreadPool: runs the groups of one launch on a fixed set of threads. Launches follow each other within microseconds, so
// workers spin for a moment before they sleep. A second launch that arrives while the pool is busy runs on its own thread.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace rtx::backend::cpu {

// A compiled kernel: runs groups [begin, end).
using Kernel = void (*)(void* const* arguments, int64_t begin, int64_t end, void* scratch);

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Returns when all groups are done. False when scratch memory could not be had.
  bool run(Kernel kernel, void* const* arguments, int64_t groups, int64_t scratch_bytes);

 private:
  struct Job {
    Kernel kernel = nullptr;
    void* const* arguments = nullptr;
    int64_t groups = 0, chunk = 1, scratch_bytes = 0;
  };
  void work();
  bool take_part();

  std::vector<std::thread> workers_;
  std::mutex busy_;                       // one job at a time
  Job job_;
  alignas(64) std::atomic<int64_t> next_{0};        // next group nobody has taken
  alignas(64) std::atomic<uint32_t> generation_{0};  // counts jobs; workers wait for it to move
  alignas(64) std::atomic<int> running_{0};          // workers still inside the job
  std::atomic<bool> out_of_memory_{false};
  std::atomic<bool> ending_{false};
};

}  // namespace rtx::backend::cpu

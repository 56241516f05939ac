#pragma once
// Crew: the threads of one group as fibers of one OS thread. A thread runs until it has to wait for others; when nobody can run
// and somebody waits, the group can never end, and the launch fails with a sentence that says who waits where.
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/emulator/collective.h"
#include "backend/emulator/fiber.h"

namespace rtx::backend::emulator {

constexpr int kMostThreads = 1024;

// In which order threads run. A kernel without races computes the same bits in all of them.
enum class Order : uint8_t {
  forward,   // thread 0 first; whoever may go on queues up behind the others, so waves advance side by side
  backward,  // the last thread first; a wave that may go on does so at once, so it runs as far ahead as barriers allow
};

// One launch, shared by the crews that run its groups.
struct Run {
  std::string name;
  const rtx_emulation::Entry* entry = nullptr;
  void* const* arguments = nullptr;
  int threads = 1;
  int64_t groups = 1;
  size_t scratch_bytes = 0;
  bool has_store_matrix = true;
  Order order = Order::forward;

  std::atomic<bool> expired{false};  // its time is up
  std::atomic<bool> failed{false};

  void fail(std::string sentence);  // the first one stays
  std::string failure();
  // The OS threads that run groups of it, for the watchdog.
  void join(pthread_t thread);
  void leave(pthread_t thread);
  void interrupt();

 private:
  std::mutex mutex_;
  std::string failure_;
  const void* fault_address_ = nullptr;
  std::vector<pthread_t> crews_;

 public:
  // Where memory was touched that may not be; null when no such fault happened.
  const void* fault_address() const { return fault_address_; }
  void fault_at(const void* address, std::string sentence);
};

class Crew {
 public:
  Crew();
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Runs groups [begin, end) of `run` on the calling thread; returns early when the launch has failed.
  void work(Run& run, int64_t begin, int64_t end);

  struct Hooks;   // what kernels call
  struct Signal;  // what the signal handler calls

 private:
  enum class State : uint8_t { ready, at_barrier, in_collective, ended };
  struct Fiber {
    void* stack = nullptr;  // its stack pointer while it does not run
    rtx_emulation::Collective* part = nullptr;
    int line = 0, barrier = 0, count = 0;
    State state = State::ready;
    void* shadow = nullptr;  // the address sanitizer's
  };
  struct Copy {
    void* to;
    const void* from;
    int bytes, valid, line;
  };
  struct Copies {  // of one thread, oldest first
    std::vector<Copy> list;
    std::vector<size_t> ends;  // of committed groups, in `list`
    size_t done = 0, first_open = 0;
  };

  bool prepare(Run& run);
  void begin_group(int64_t group);
  bool run_group(int64_t group);
  void check_scratch(int64_t group);
  static void thread_main(void* crew);
  // The running thread cannot go on: the next one does. Returns when the caller may.
  void wait();
  void switch_to(int next);
  void give_up();  // back to run_group for good
  void end_thread();
  void release(int barrier);
  void make_ready(int thread);
  void enter_barrier(int id, int count, int line);
  void enter_collective(rtx_emulation::Collective& mine);
  bool perform_together(rtx_emulation::Collective* const* parts, int lanes);
  void copy(const Copy& request);
  void commit();
  void complete(int open);
  static bool was_overtaken(const Copy& copy);
  bool check_open_copies();
  // The launch fails and this thread does not go on. The sentence comes from a call: nothing may be left on a stack that is given up.
  template <class Sentence>
  void fail(Sentence sentence) {
    note(sentence());
    give_up();
  }
  void note(std::string sentence);
  std::string who_waits() const;
  std::string thread_of_group() const;
  void after_switch(void* shadow);
  void catch_signal(int number, const void* address);

  Run* run_ = nullptr;
  int64_t group_ = 0;
  Stacks stacks_;
  std::vector<Fiber> fibers_;
  std::vector<Copies> copies_;
  std::vector<int> order_;                       // threads as they start and are released
  int ready_[kMostThreads], head_ = 0, queued_ = 0;  // a ring
  int arrived_[kMostThreads / kWave] = {};       // lanes of a wave in a collective
  int at_barrier_[16] = {};
  int current_ = 0, alive_ = 0;
  void* main_stack_ = nullptr;
  std::unique_ptr<std::byte[]> scratch_memory_;
  size_t scratch_capacity_ = 0;
  SharedMemory scratch_;
  std::vector<std::byte> signal_stack_;

  // Read by the signal handler.
  volatile bool on_fiber_ = false, in_hook_ = false;
  volatile int signal_ = 0;
  const void* volatile signal_address_ = nullptr;

  // The address sanitizer's view of the stack that work() runs on.
  void* main_shadow_ = nullptr;
  const void* main_bottom_ = nullptr;
  size_t main_bytes_ = 0;
};

}  // namespace rtx::backend::emulator

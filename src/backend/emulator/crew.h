#pragma once
// Crew: the threads of one group, or of the groups of one cluster, as fibers of one OS thread. A thread runs until it has to wait for
// others; when nobody can run and somebody waits, the group can never end, and the launch fails with a sentence that says who waits
// where. What the machine does by itself (copies, boxes, products) is done at the earliest moment in one order of threads and at the
// latest in the other.
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/emulator/async_scratch.h"
#include "backend/emulator/collective.h"
#include "backend/emulator/fiber.h"
#include "backend/emulator/mbarriers.h"
#include "backend/emulator/products.h"
#include "backend/emulator/tensor_map.h"

namespace rtx::backend::emulator {

constexpr int kMostThreads = 1024;
constexpr int kMostCluster = 8;
constexpr int kMostFibers = kMostThreads * kMostCluster;

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
  std::vector<TensorMap> maps;  // of the launch's views
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

  // Runs clusters [begin, end) of `run` on the calling thread; returns early when the launch has failed.
  void work(Run& run, int64_t begin, int64_t end);

  struct Hooks;   // what kernels call
  struct Signal;  // what the signal handler calls

 private:
  enum class State : uint8_t { ready, at_barrier, in_collective, at_mbarrier, at_products, at_cluster_barrier, ended };
  struct Fiber {
    void* stack = nullptr;  // its stack pointer while it does not run
    rtx_emulation::Collective* part = nullptr;
    int line = 0, barrier = 0, count = 0;  // at_mbarrier: `barrier` is its offset in scratch, `count` the parity
    int registers = 0;                     // asked for; 0: those it started with
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

  // Boxes that a thread stores, oldest first.
  struct Stores {
    std::vector<rtx_emulation::Box> list;
    std::vector<size_t> ends;  // of committed groups, in `list`
    size_t done = 0, first_open = 0;
  };
  struct Load {
    rtx_emulation::Box box;
    int member;
  };
  // One of the cluster's groups.
  struct Member {
    int64_t group = 0;
    std::unique_ptr<std::byte[]> memory;
    size_t capacity = 0;
    SharedMemory scratch;
    int at_barrier[16] = {}, barrier_count[16] = {}, alive = 0;
    int fenced[kMostThreads / kWave] = {};  // lanes of a wave
    int at_products[kMostThreads / kWarpgroup] = {};
    AsyncScratch async;
    Mbarriers mbarriers;
    std::vector<Products> products;  // of its warpgroups
  };

  bool prepare(Run& run);
  bool give_scratch(Member& member);
  void begin_cluster(int64_t number);
  bool run_cluster(int64_t number);
  bool check_scratch(const Member& member);
  bool check_registers();
  int member_number() const { return current_ / run_->threads; }
  Member& member() { return members_[static_cast<size_t>(member_number())]; }
  int thread() const { return current_ % run_->threads; }
  int first_thread() const { return member_number() * run_->threads; }
  static void thread_main(void* crew);
  // The running thread cannot go on: the next one does. Returns when the caller may.
  void wait();
  void step_back();  // whoever may run goes on first
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
  void arrive_barrier(int id, int count, int line);
  void count_at_barrier(int id, int count);
  void enter_cluster_barrier(int line);
  void mbarrier(const rtx_emulation::Mbarrier& request);
  std::string arrive(Member& at_member, void* at, int bytes, const rtx_emulation::Mbarrier& request);
  bool is_waited_for(const rtx_emulation::Mbarrier& request, bool* passes);
  void wake(int member_number, const Mbarriers::Barrier& barrier);
  std::string start_box(const rtx_emulation::Box& box);
  std::string start_load(const rtx_emulation::Box& box, const TensorMap& map, int into);
  void perform(const Load& load);
  std::string product(const rtx_emulation::Product& mine);
  void groups(const rtx_emulation::Groups& request);
  void complete_stores(int open);
  void enter_products(const rtx_emulation::Groups& request);
  bool finish_products(int open);
  void proxy_fence();
  std::string change_registers(int count, bool grow, int line);
  void* remote(const void* at, int bytes, int rank, int line);
  std::string what_is_left() const;
  static bool was_overtaken(const Copy& copy);
  bool check_open_copies();
  // The launch fails and this thread does not go on. The sentence comes from a call: nothing may be left on a stack that is given up.
  template <class Sentence>
  void fail(Sentence sentence) {
    note(sentence());
    give_up();
  }
  // As fail(), for work that gives an empty string when all is well.
  template <class Work>
  void attempt(Work work) {
    if (!attempted(work)) give_up();
  }
  template <class Work>
  [[gnu::noinline]] bool attempted(Work& work) {
    std::string wrong = work();
    if (!wrong.empty()) note(std::move(wrong));
    return !run_->failed;
  }
  void note(std::string sentence);
  std::string here(const char* does, int line) const;
  static const char* name_of(rtx_emulation::Collective::Kind kind);
  std::string who_waits() const;
  std::string thread_of_group() const;
  void after_switch(void* shadow);
  void catch_signal(int number, const void* address);

  Run* run_ = nullptr;
  Stacks stacks_;
  std::vector<Member> members_;
  std::vector<Fiber> fibers_;  // of all members
  std::vector<Copies> copies_;
  std::vector<Stores> stores_;
  std::deque<Load> loads_;     // that the machine has not begun
  std::vector<int> order_;                       // threads as they start and are released
  int ready_[kMostFibers], head_ = 0, queued_ = 0;  // a ring
  int arrived_[kMostFibers / kWave] = {};           // lanes of a wave in a collective
  int at_cluster_barrier_ = 0;
  int current_ = 0, alive_ = 0, fiber_count_ = 0;
  void* main_stack_ = nullptr;
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

#include "backend/emulator/crew.h"

#include <algorithm>
#include <cstring>

#include "backend/emulator/pattern.h"
#include "backend/emulator/signals.h"
#include "base/assert.h"

#ifdef RTX_FIBER_SHADOW
#include <sanitizer/common_interface_defs.h>
#endif

namespace rtx::backend::emulator {

using rtx_emulation::Collective;
using rtx_emulation::Thread;

namespace {

constexpr size_t kScratchAlignment = 1024;

}  // namespace

// ---- what kernels call, on a fiber's stack ------------------------------------------------------------------------------------

struct Crew::Hooks {
  // A hook may be left only where the crew's data is whole, so the watchdog waits until the kernel's own code runs again.
  class Inside {
   public:
    Inside() : crew_(*static_cast<Crew*>(rtx_emulation::self().crew)) { crew_.in_hook_ = true; }
    ~Inside() { crew_.in_hook_ = false; }
    Crew* operator->() const { return &crew_; }

   private:
    Crew& crew_;
  };

  static void barrier(int id, int count, int line) { Inside()->enter_barrier(id, count, line); }
  static void collective(Collective& mine) { Inside()->enter_collective(mine); }
  static void copy_async(void* to, const void* from, int bytes, int valid, int line) { Inside()->copy({to, from, bytes, valid, line}); }
  static void copy_async_commit() { Inside()->commit(); }
  static void copy_async_wait(int open, int) { Inside()->complete(open); }
  static void misaligned(const void* address, int bytes, int line) {
    Inside crew;
    crew->fail([&] {
      return crew->thread_of_group() + " moves " + std::to_string(bytes) + " bytes at once in line " + std::to_string(line) + ", at an address that is " +
             std::to_string(reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes)) + " past a multiple of that";
    });
  }
  static void trap(int line) {
    Inside crew;
    crew->fail([&] { return crew->thread_of_group() + " called trap() in line " + std::to_string(line); });
  }

  static void barrier_arrive(int id, int count, int line) { Inside()->arrive_barrier(id, count, line); }
  static void mbarrier(const rtx_emulation::Mbarrier& request) { Inside()->mbarrier(request); }
  static void box(const rtx_emulation::Box& request) {
    Inside crew;
    crew->attempt([&] { return crew->start_box(request); });
  }
  static void product(const rtx_emulation::Product& mine) {
    Inside crew;
    crew->attempt([&] { return crew->product(mine); });
  }
  static void groups(const rtx_emulation::Groups& request) { Inside()->groups(request); }
  static void proxy_fence() { Inside()->proxy_fence(); }
  static void registers(int count, bool grow, int line) {
    Inside crew;
    crew->attempt([&] { return crew->change_registers(count, grow, line); });
  }
  static void cluster_barrier(int line) { Inside()->enter_cluster_barrier(line); }
  static void* remote(const void* at, int bytes, int rank, int line) { return Inside()->remote(at, bytes, rank, line); }

  static constexpr rtx_emulation::Hooks table = {barrier, collective, copy_async, copy_async_commit, copy_async_wait, misaligned, trap,
                                                 barrier_arrive, mbarrier, box, product, groups, proxy_fence, registers, cluster_barrier, remote};
};

Crew::Crew() : signal_stack_(kSignalStackBytes) {}
Crew::~Crew() = default;

void Crew::thread_main(void* argument) {
  Crew& crew = *static_cast<Crew*>(argument);
  crew.after_switch(nullptr);
  crew.in_hook_ = false;
  crew.run_->entry->run();
  crew.in_hook_ = true;
  crew.end_thread();
  RTX_ASSERT(false, "a thread that ended does not run again");
}

void Crew::after_switch([[maybe_unused]] void* shadow) {
#ifdef RTX_FIBER_SHADOW
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(shadow, &bottom, &bytes);
  if (!main_bottom_) main_bottom_ = bottom, main_bytes_ = bytes;  // the first switch comes from there
#endif
}

void Crew::switch_to(int next) {
  Fiber& mine = fibers_[static_cast<size_t>(current_)];
  Fiber& theirs = fibers_[static_cast<size_t>(next)];
  current_ = next;
#ifdef RTX_FIBER_SHADOW
  __sanitizer_start_switch_fiber(mine.state == State::ended ? nullptr : &mine.shadow, stacks_.bottom(next), rtx_emulation::kStackBytes);
#endif
  rtx_emulator_switch(&mine.stack, theirs.stack);
  after_switch(mine.shadow);
}

void Crew::give_up() {
#ifdef RTX_FIBER_SHADOW
  __sanitizer_start_switch_fiber(nullptr, main_bottom_, main_bytes_);
#endif
  void* nobody = nullptr;
  rtx_emulator_switch(&nobody, main_stack_);
}

void Crew::make_ready(int thread) {
  fibers_[static_cast<size_t>(thread)].state = State::ready;
  if (run_->order == Order::backward) {
    head_ = (head_ + kMostFibers - 1) % kMostFibers;
    ready_[head_] = thread;
  } else {
    ready_[(head_ + queued_) % kMostFibers] = thread;
  }
  ++queued_;
}

void Crew::step_back() {
  ready_[(head_ + queued_) % kMostFibers] = current_;
  ++queued_;
  wait();
}

void Crew::wait() {
  for (; queued_ == 0 && !loads_.empty(); loads_.pop_front()) perform(loads_.front());  // the machine could not have put them off any longer
  if (queued_ == 0) fail([&] { return "its threads wait for each other and none can go on: " + who_waits(); });
  if (run_->expired.load(std::memory_order_relaxed)) fail([&] { return "it did not end within its time: " + who_waits(); });
  const int next = ready_[head_];
  head_ = (head_ + 1) % kMostFibers;
  --queued_;
  if (next != current_) switch_to(next);
}

void Crew::end_thread() {
  attempt([&] { return what_is_left(); });
  fibers_[static_cast<size_t>(current_)].state = State::ended;
  --member().alive;
  if (--alive_ == 0) give_up();
  wait();
}

void Crew::enter_barrier(int id, int count, int line) {
  Fiber& mine = fibers_[static_cast<size_t>(current_)];
  if (id < 0 || id > 15 || (id == 0 && count != 0)) fail([&] { return thread_of_group() + " waits at barrier " + std::to_string(id) + " in line " + std::to_string(line) + "; they go from 1 to 15"; });
  if (id != 0 && (count <= 0 || count % kWave != 0 || count > run_->threads))
    fail([&] { return thread_of_group() + " waits at a barrier of " + std::to_string(count) + " threads in line " + std::to_string(line); });
  mine.state = State::at_barrier;
  mine.line = line;
  mine.barrier = id;
  mine.count = id == 0 ? run_->threads : count;
  count_at_barrier(id, mine.count);
  wait();
}

void Crew::count_at_barrier(int id, int count) {
  Member& mine = member();
  if (mine.at_barrier[id] == 0) mine.barrier_count[id] = count;
  if (mine.barrier_count[id] != count)
    fail([&] { return "threads come to barrier " + std::to_string(id) + " for different counts, " + std::to_string(mine.barrier_count[id]) + " and " + std::to_string(count) + ": " + who_waits(); });
  if (++mine.at_barrier[id] == count) release(id);
}

void Crew::arrive_barrier(int id, int count, int line) {
  if (id < 1 || id > 15 || count <= 0 || count % kWave != 0 || count > run_->threads)
    fail([&] { return thread_of_group() + " arrives at barrier " + std::to_string(id) + " of " + std::to_string(count) + " threads in line " + std::to_string(line); });
  count_at_barrier(id, count);
}

void Crew::release(int id) {
  member().at_barrier[id] = 0;
  const bool backward = run_->order == Order::backward;
  const int first = first_thread(), end = first + run_->threads;
  // Backward pushes to the front, so the last one pushed runs first.
  for (int k = 0; k < run_->threads; ++k) {
    const int t = first + order_[static_cast<size_t>(backward ? run_->threads - 1 - k : k)];
    const Fiber& fiber = fibers_[static_cast<size_t>(t)];
    const int wave = first + (t - first) / kWave * kWave;
    const Fiber& leader = fibers_[static_cast<size_t>(wave)];
    if (fiber.state != State::at_barrier || fiber.barrier != id) {
      if (id == 0) continue;
      // A wave comes to a named barrier as a whole.
      for (int l = wave; l < std::min(end, wave + kWave); ++l) {
        const Fiber& other = fibers_[static_cast<size_t>(l)];
        if (other.state == State::at_barrier && other.barrier == id)
          fail([&] { return "only some threads of wave " + std::to_string((t - first) / kWave) + " came to barrier " + std::to_string(id) + ": " + who_waits(); });
      }
      continue;
    }
    if (leader.line != fiber.line && leader.line != 0)
      fail([&] { return "the threads of wave " + std::to_string((t - first) / kWave) + " wait at different barriers: " + who_waits(); });
  }
  for (int k = 0; k < run_->threads; ++k) {
    const int t = first + order_[static_cast<size_t>(backward ? run_->threads - 1 - k : k)];
    Fiber& fiber = fibers_[static_cast<size_t>(t)];
    if (fiber.state == State::at_barrier && fiber.barrier == id) make_ready(t);
  }
}

bool Crew::perform_together(Collective* const* parts, int lanes) {
  const std::string wrong = emulator::perform(parts, lanes, member().scratch, run_->has_store_matrix);
  if (!wrong.empty()) note(thread_of_group() + " and its wave in " + name_of(parts[0]->kind) + ", line " + std::to_string(parts[0]->line) + ": " + wrong);
  return wrong.empty();
}

void Crew::enter_collective(Collective& mine) {
  Fiber& fiber = fibers_[static_cast<size_t>(current_)];
  const int of_group = thread() / kWave, first = first_thread() + of_group * kWave, lanes = std::min(kWave, run_->threads - of_group * kWave);
  const int wave = member_number() * (kMostThreads / kWave) + of_group;
  fiber.part = &mine;
  fiber.line = mine.line;
  fiber.state = State::in_collective;
  if (++arrived_[wave] < lanes) {
    wait();
    return;
  }
  arrived_[wave] = 0;
  Collective* parts[kWave];
  for (int l = 0; l < lanes; ++l) {
    const Fiber& other = fibers_[static_cast<size_t>(first + l)];
    parts[l] = other.part;
    if (parts[l]->line != parts[0]->line || parts[l]->kind != parts[0]->kind)
      fail([&] { return "the threads of wave " + std::to_string(of_group) + " do different things together: " + who_waits(); });
  }
  if (!perform_together(parts, lanes)) give_up();
  fiber.state = State::ready;
  // Backward puts each in front, so the last lane is the first to go on.
  for (int t = first; t < first + lanes; ++t)
    if (t != current_) make_ready(t);
}

// ---- on the OS thread's own stack ---------------------------------------------------------------------------------------------------

bool Crew::prepare(Run& run) {
  run_ = &run;
  const int cluster = run.entry->cluster;
  fiber_count_ = run.threads * cluster;
  if (const Status reserved = stacks_.reserve(fiber_count_); !reserved.ok()) {
    run.fail(reserved.error().what + ": " + reserved.error().why);
    return false;
  }
  const auto fibers = static_cast<size_t>(fiber_count_);
  if (fibers_.size() < fibers) fibers_.resize(fibers), copies_.resize(fibers), stores_.resize(fibers);
  order_.resize(static_cast<size_t>(run.threads));
  for (int t = 0; t < run.threads; ++t) order_[static_cast<size_t>(t)] = run.order == Order::backward ? run.threads - 1 - t : t;
  members_.resize(static_cast<size_t>(cluster));
  for (Member& member : members_)
    if (!give_scratch(member)) return false;
  return true;
}

bool Crew::give_scratch(Member& member) {
  const size_t wanted = run_->scratch_bytes + 2 * kZoneBytes + 2 * kScratchAlignment;
  if (wanted > member.capacity) {
    member.memory.reset(new (std::nothrow) std::byte[wanted]);
    member.capacity = member.memory ? wanted : 0;
    if (!member.memory) {
      run_->fail("no memory for " + std::to_string(run_->scratch_bytes) + " bytes of scratch");
      return false;
    }
  }
  const auto base = reinterpret_cast<uintptr_t>(member.memory.get()) + kZoneBytes;
  member.scratch.at = member.memory.get() + kZoneBytes + (kScratchAlignment - base % kScratchAlignment) % kScratchAlignment;
  member.scratch.bytes = run_->scratch_bytes;
  fill_pattern(member.scratch.at - kZoneBytes, member.scratch.bytes + 2 * kZoneBytes);
  member.products.resize(static_cast<size_t>((run_->threads + kWarpgroup - 1) / kWarpgroup));
  return true;
}

void Crew::begin_cluster(int64_t number) {
  std::fill(std::begin(arrived_), std::end(arrived_), 0);
  head_ = queued_ = at_cluster_barrier_ = 0;
  alive_ = fiber_count_;
  loads_.clear();
  const auto cluster = static_cast<int64_t>(members_.size());
  for (int64_t m = 0; m < cluster; ++m) {
    Member& member = members_[static_cast<size_t>(m)];
    member.group = number * cluster + m;
    member.alive = run_->threads;
    fill_pattern(member.scratch.at, member.scratch.bytes);
    std::fill(std::begin(member.at_barrier), std::end(member.at_barrier), 0);
    std::fill(std::begin(member.fenced), std::end(member.fenced), 0);
    std::fill(std::begin(member.at_products), std::end(member.at_products), 0);
    member.async.begin(member.scratch);
    member.mbarriers.begin(member.scratch);
    for (Products& products : member.products) products.begin();
    for (int t = 0; t < run_->threads; ++t) {
      const int f = static_cast<int>(m) * run_->threads + t;
      Fiber& fiber = fibers_[static_cast<size_t>(f)];
      stacks_.clean(f);
      fiber = {};
      fiber.stack = stacks_.start(f, thread_main, this);
      Copies& copies = copies_[static_cast<size_t>(f)];
      copies.list.clear(), copies.ends.clear();
      copies.done = copies.first_open = 0;
      Stores& stores = stores_[static_cast<size_t>(f)];
      stores.list.clear(), stores.ends.clear();
      stores.done = stores.first_open = 0;
      Thread& thread = stacks_.thread(f);
      thread = {&Hooks::table, member.scratch.at, run_->arguments, member.group, run_->groups, t, run_->threads, this, run_->maps.data(), static_cast<int>(m)};
    }
  }
  const bool backward = run_->order == Order::backward;
  for (int64_t m = 0; m < cluster; ++m)
    for (const int t : order_) ready_[queued_++] = static_cast<int>(backward ? cluster - 1 - m : m) * run_->threads + t;
  current_ = ready_[head_++];
  --queued_;
}

bool Crew::run_cluster(int64_t number) {
  begin_cluster(number);
  signal_ = 0;
  in_hook_ = true;
  on_fiber_ = true;
#ifdef RTX_FIBER_SHADOW
  main_bottom_ = nullptr;
  __sanitizer_start_switch_fiber(&main_shadow_, stacks_.bottom(current_), rtx_emulation::kStackBytes);
#endif
  rtx_emulator_switch(&main_stack_, fibers_[static_cast<size_t>(current_)].stack);
  on_fiber_ = false;
#ifdef RTX_FIBER_SHADOW
  __sanitizer_finish_switch_fiber(main_shadow_, nullptr, nullptr);
#endif
  if (signal_ != 0) {
    const std::string where = thread_of_group();
    if (signal_ == kInterrupt) {
      run_->fail(where + " did not end within its time");
    } else if (const int overflowed = stacks_.overflowed(signal_address_); overflowed >= 0) {
      run_->fail(where + " used up its stack of " + std::to_string(rtx_emulation::kStackBytes >> 10) + " KiB");
    } else if (signal_ == SIGSEGV || signal_ == SIGBUS) {
      run_->fault_at(signal_address_, where + " touched memory that is not its own");
    } else {
      run_->fail(where + (signal_ == SIGFPE ? " divided an integer by zero" : " ran an instruction that this processor does not have"));
    }
    return false;
  }
  if (run_->failed) return false;
  if (!check_open_copies() || !check_registers()) return false;
  for (const Member& member : members_)
    if (!check_scratch(member)) return false;
  return true;
}

bool Crew::check_scratch(const Member& member) {
  const SharedMemory& scratch = member.scratch;
  const size_t behind = find_change(scratch.at + scratch.bytes, kZoneBytes), before = find_change(scratch.at - kZoneBytes, kZoneBytes);
  if (behind == kZoneBytes && before == kZoneBytes) return true;
  const bool past = behind != kZoneBytes;
  const size_t distance = past ? behind : kZoneBytes - find_last_change(scratch.at - kZoneBytes, kZoneBytes);
  run_->fail("group " + std::to_string(member.group) + " wrote " + (past ? "past" : "before") + " its " + std::to_string(scratch.bytes) + " bytes of scratch, " +
             std::to_string(distance) + " bytes from its " + (past ? "end" : "start"));
  return false;
}

void Crew::work(Run& run, int64_t begin, int64_t end) {
  if (run.failed || !prepare(run)) return;
  const SignalStack signal_stack(signal_stack_.data(), signal_stack_.size());
  const int64_t clusters = run.groups / run.entry->cluster;
  run.join(pthread_self());
  Signal::enter(this);
  for (int64_t c = begin; c < end && !run.failed; ++c)
    if (!run_cluster(run.order == Order::backward ? clusters - 1 - c : c)) break;
  Signal::leave();
  run.leave(pthread_self());
  run_ = nullptr;
}

// ---- signals ----------------------------------------------------------------------------------------------------------------------

void Crew::catch_signal(int number, const void* address) {
  if (!on_fiber_) return;
  if (number == kInterrupt && (in_hook_ || !run_->expired)) return;
  signal_ = number;
  signal_address_ = address;
  give_up();
}

}  // namespace rtx::backend::emulator

// The Hopper set: barriers in scratch, boxes, products, clusters. On a fiber's stack.
#include <algorithm>

#include "backend/emulator/crew.h"
#include "backend/emulator/pattern.h"

namespace rtx::backend::emulator {

using rtx_emulation::Box;
using rtx_emulation::Groups;

namespace {

constexpr size_t kBoxAlignment = 128;
constexpr int kRegisters = 65536;  // a core's, shared by the groups on it

}  // namespace

// ---- barriers in scratch ------------------------------------------------------------------------------------------------------------

void Crew::mbarrier(const rtx_emulation::Mbarrier& request) {
  using Kind = rtx_emulation::Mbarrier::Kind;
  const int ready = queued_;
  switch (request.kind) {
    case Kind::init:
      attempt([&] {
        std::string problem = member().mbarriers.make(request.at, request.number, thread(), request.line);
        return problem.empty() ? problem : here("makes an mbarrier", request.line) + problem;
      });
      break;
    case Kind::init_done: member().mbarriers.made_by(thread()); break;
    case Kind::arrive: attempt([&] { return arrive(member(), request.at, 0, request); }); break;
    case Kind::expect: attempt([&] { return arrive(member(), request.at, request.number, request); }); break;
    case Kind::arrive_remote:
      attempt([&] {
        if (request.number < 0 || request.number >= static_cast<int>(members_.size())) return here("arrives at a remote mbarrier", request.line) + "the cluster has no rank " + std::to_string(request.number);
        Member& there = members_[static_cast<size_t>(request.number)];
        if (there.alive == 0) return here("arrives at a remote mbarrier", request.line) + "the group of rank " + std::to_string(request.number) + " has ended";
        return arrive(there, there.scratch.at + (static_cast<std::byte*>(request.at) - member().scratch.at), 0, request);
      });
      break;
    case Kind::wait: {
      bool passes = false;
      if (!is_waited_for(request, &passes)) give_up();
      if (!passes) wait();
      return;
    }
  }
  // Those who waited for what this arrival completes go on before whoever arrived: what ought to have been done first is seen to be missing.
  if (run_->order == Order::backward && queued_ > ready) step_back();
}

std::string Crew::arrive(Member& at_member, void* at, int bytes, const rtx_emulation::Mbarrier& request) {
  std::string problem;
  bool completed = false;
  Mbarriers::Barrier* const barrier = at_member.mbarriers.find(at, &problem);
  if (barrier) {
    Mbarriers::expect(*barrier, bytes);
    problem = at_member.mbarriers.arrive(*barrier, &completed);
    if (completed) wake(static_cast<int>(&at_member - members_.data()), *barrier);
  }
  return problem.empty() ? problem : here("arrives", request.line) + problem;
}

bool Crew::is_waited_for(const rtx_emulation::Mbarrier& request, bool* passes) {
  std::string problem;
  const Mbarriers::Barrier* const barrier = member().mbarriers.find(request.at, &problem);
  if (!barrier) {
    note(here("waits", request.line) + problem);
    return false;
  }
  *passes = Mbarriers::is_complete(*barrier, static_cast<uint32_t>(request.number));
  if (*passes) return true;
  Fiber& mine = fibers_[static_cast<size_t>(current_)];
  mine.state = State::at_mbarrier;
  mine.line = request.line;
  mine.barrier = static_cast<int>(barrier->offset);
  mine.count = request.number & 1;
  return true;
}

void Crew::wake(int member_number, const Mbarriers::Barrier& barrier) {
  const bool backward = run_->order == Order::backward;
  for (int k = 0; k < run_->threads; ++k) {
    const int f = member_number * run_->threads + order_[static_cast<size_t>(backward ? run_->threads - 1 - k : k)];
    const Fiber& fiber = fibers_[static_cast<size_t>(f)];
    if (fiber.state == State::at_mbarrier && fiber.barrier == static_cast<int>(barrier.offset) && Mbarriers::is_complete(barrier, static_cast<uint32_t>(fiber.count))) make_ready(f);
  }
}

// ---- boxes ----------------------------------------------------------------------------------------------------------------------------
// A load arrives at once in one order of threads, and in the other when nobody can go on without it; a store takes its bytes when it is
// waited for, or at once. Between its start and its arrival a load's place holds the pattern of memory that nobody wrote.

std::string Crew::start_box(const Box& box) {
  const bool stores = box.kind == Box::store;
  const auto wrong = [&](const std::string& why) { return here(stores ? "stores a box" : "loads a box", box.line) + why; };
  const auto* const map = static_cast<const TensorMap*>(box.view);
  const TensorMap* const first = run_->maps.data();
  if (map < first || map >= first + run_->maps.size()) return wrong("its view is none of the launch's " + std::to_string(run_->maps.size()));
  const auto number = std::to_string(map - first);
  if (map->rank != box.rank) return wrong("it gives " + std::to_string(box.rank) + " coordinates, view " + number + " has " + std::to_string(map->rank));
  Member& mine = member();
  if (!mine.scratch.holds(box.shared, map->box_bytes())) return wrong("the " + std::to_string(map->box_bytes()) + " bytes of a box of view " + number + " do not lie in its group's scratch");
  if (reinterpret_cast<uintptr_t>(box.shared) % kBoxAlignment != 0) return wrong("its place in scratch is not aligned to 128 bytes");
  if (stores) {
    if (std::string problem = mine.async.check_store(mine.async.offset_of(box.shared), map->box_bytes()); !problem.empty()) return wrong(problem);
    if (run_->order == Order::backward) store_box(*map, box.at, static_cast<const std::byte*>(box.shared));
    stores_[static_cast<size_t>(current_)].list.push_back(box);
    return {};
  }
  const int cluster = static_cast<int>(members_.size()), mask = box.kind == Box::load ? 1 << member_number() : box.mask;
  if (mask <= 0 || mask >= 1 << cluster) return wrong("the cluster has " + std::to_string(cluster) + " groups, its mask is " + std::to_string(mask));
  for (int m = 0; m < cluster; ++m)
    if (mask >> m & 1)
      if (std::string problem = start_load(box, *map, m); !problem.empty()) return wrong(problem);
  return {};
}

std::string Crew::start_load(const Box& box, const TensorMap& map, int into) {
  Member& there = members_[static_cast<size_t>(into)];
  const size_t offset = member().async.offset_of(box.shared), bytes = map.box_bytes();
  if (there.alive == 0) return "the group of rank " + std::to_string(into) + " has ended";
  std::string problem;
  if (!there.mbarriers.find(there.scratch.at + (static_cast<std::byte*>(box.mbarrier) - member().scratch.at), &problem)) return problem;
  if (problem = there.async.expect_box(offset, bytes, box.line); !problem.empty()) return problem;
  if (run_->order == Order::forward) {
    perform({box, into});
    return {};
  }
  fill_pattern(there.scratch.at + offset, bytes);
  fill_pattern(there.async.second(offset), bytes);
  Load load{box, into};
  load.box.shared = there.scratch.at + offset;
  load.box.mbarrier = there.scratch.at + (static_cast<std::byte*>(box.mbarrier) - member().scratch.at);
  loads_.push_back(load);
  return {};
}

// In the forward order its places are still those of the group that asked.
void Crew::perform(const Load& load) {
  Member& there = members_[static_cast<size_t>(load.member)];
  const auto& map = *static_cast<const TensorMap*>(load.box.view);
  const Member& asked = run_->order == Order::forward ? member() : there;
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(load.box.shared) - asked.scratch.at);
  const auto barrier_offset = static_cast<std::byte*>(load.box.mbarrier) - asked.scratch.at;
  load_box(map, load.box.at, there.scratch.at + offset, there.async.second(offset));
  there.async.box_arrived(offset, map.box_bytes(), map.swizzle);
  attempt([&] {
    std::string problem;
    Mbarriers::Barrier* const barrier = there.mbarriers.find(there.scratch.at + barrier_offset, &problem);
    if (!barrier) return "the box of line " + std::to_string(load.box.line) + " arrived at " + problem;
    if (there.mbarriers.bytes_came(*barrier, static_cast<int64_t>(map.box_bytes()))) wake(load.member, *barrier);
    return problem;
  });
}

void Crew::complete_stores(int open) {
  Stores& mine = stores_[static_cast<size_t>(current_)];
  for (; mine.ends.size() - mine.first_open > static_cast<size_t>(open); ++mine.first_open)
    for (; mine.done < mine.ends[mine.first_open]; ++mine.done) {
      const Box& box = mine.list[mine.done];
      if (run_->order == Order::forward) store_box(*static_cast<const TensorMap*>(box.view), box.at, static_cast<const std::byte*>(box.shared));
    }
  if (mine.done < mine.list.size()) return;
  mine.list.clear(), mine.ends.clear();
  mine.done = mine.first_open = 0;
}

// A wave's fence counts when all of its lanes called it: each fences what it wrote itself.
void Crew::proxy_fence() {
  const int wave = thread() / kWave;
  if (++member().fenced[wave] < std::min(kWave, run_->threads - wave * kWave)) return;
  member().fenced[wave] = 0;
  member().async.publish();
}

// ---- products -------------------------------------------------------------------------------------------------------------------------

std::string Crew::product(const rtx_emulation::Product& mine) {
  const int warpgroup = thread() / kWarpgroup;
  if ((warpgroup + 1) * kWarpgroup > run_->threads) return here("issues a product", mine.line) + "its warpgroup has fewer than 128 threads";
  std::string problem = member().products[static_cast<size_t>(warpgroup)].issue(thread() % kWarpgroup, mine, member().async);
  return problem.empty() ? problem : here("issues a product", mine.line) + problem;
}

void Crew::groups(const Groups& request) {
  const int warpgroup = thread() / kWarpgroup;
  switch (request.kind) {
    case Groups::fence_products: member().products[static_cast<size_t>(warpgroup)].fence(thread() % kWarpgroup); break;
    case Groups::commit_products:
      attempt([&] {
        std::string problem = member().products[static_cast<size_t>(warpgroup)].commit(thread() % kWarpgroup);
        return problem.empty() ? problem : here("commits products", request.line) + problem;
      });
      break;
    case Groups::wait_products: enter_products(request); break;
    case Groups::commit_stores: stores_[static_cast<size_t>(current_)].ends.push_back(stores_[static_cast<size_t>(current_)].list.size()); break;
    case Groups::wait_stores_read:
    case Groups::wait_stores: complete_stores(request.open); break;
  }
}

void Crew::enter_products(const Groups& request) {
  Fiber& mine = fibers_[static_cast<size_t>(current_)];
  const int warpgroup = thread() / kWarpgroup, first = first_thread() + warpgroup * kWarpgroup;
  mine.state = State::at_products;
  mine.line = request.line;
  mine.count = request.open;
  if (++member().at_products[warpgroup] < kWarpgroup) {
    wait();
    return;
  }
  member().at_products[warpgroup] = 0;
  for (int t = first; t < first + kWarpgroup; ++t)
    if (fibers_[static_cast<size_t>(t)].line != request.line) fail([&] { return "the threads of warpgroup " + std::to_string(warpgroup) + " wait for products in different lines: " + who_waits(); });
  if (!finish_products(request.open)) give_up();
  mine.state = State::ready;
  for (int t = first; t < first + kWarpgroup; ++t)
    if (t != current_) make_ready(t);
}

bool Crew::finish_products(int open) {
  const int warpgroup = thread() / kWarpgroup;
  const std::string problem = member().products[static_cast<size_t>(warpgroup)].wait(open, member().async);
  if (problem.empty()) return true;
  note("warpgroup " + std::to_string(warpgroup) + " of group " + std::to_string(member().group) + " waits in line " + std::to_string(fibers_[static_cast<size_t>(current_)].line) + ": " + problem);
  return false;
}

// What a thread may not leave behind.
std::string Crew::what_is_left() const {
  const Member& mine = members_[static_cast<size_t>(member_number())];
  const size_t warpgroup = static_cast<size_t>(thread() / kWarpgroup);
  if (!mine.products[warpgroup].idle()) return thread_of_group() + " ended with products that nobody waited for";
  if (const Stores& stores = stores_[static_cast<size_t>(current_)]; !stores.list.empty())
    return thread_of_group() + " ended with the box of line " + std::to_string(stores.list.front().line) + " not stored: store_view_commit() and store_view_wait() are missing";
  if (mine.alive > 1) return {};
  for (const Load& load : loads_)
    if (load.member == member_number()) return "group " + std::to_string(mine.group) + " ended with the box of line " + std::to_string(load.box.line) + " on its way: nobody waited for it";
  return {};
}

// ---- registers, clusters --------------------------------------------------------------------------------------------------------------

std::string Crew::change_registers(int count, bool grow, int line) {
  Fiber& mine = fibers_[static_cast<size_t>(current_)];
  const char* const does = grow ? "asks for more registers" : "gives registers back";
  if (count % 8 != 0 || count < 24 || count > 256) return here(does, line) + std::to_string(count) + " is no multiple of 8 from 24 to 256";
  if (mine.registers != 0 && (grow ? count < mine.registers : count > mine.registers)) return here(does, line) + "it has " + std::to_string(mine.registers) + ", and " + std::to_string(count) + " are asked for";
  mine.registers = count;
  return {};
}

// A warpgroup's threads agree, and the group's registers are no more than it has: else the machine waits for ever.
bool Crew::check_registers() {
  const int pool = kRegisters / std::max(1, run_->entry->per_core), at_start = std::min(255, pool / run_->threads) / 8 * 8;
  for (size_t m = 0; m < members_.size(); ++m) {
    int total = 0, asked = 0;
    for (int t = 0; t < run_->threads; ++t) {
      const size_t f = m * static_cast<size_t>(run_->threads) + static_cast<size_t>(t);
      const int mine = fibers_[f].registers, leaders = fibers_[f - static_cast<size_t>(t % kWarpgroup)].registers;
      asked += mine != 0;
      total += mine != 0 ? mine : at_start;
      if (mine == leaders) continue;
      run_->fail("the threads of warpgroup " + std::to_string(t / kWarpgroup) + " of group " + std::to_string(members_[m].group) + " changed their registers differently");
      return false;
    }
    if (asked == 0 || total <= pool) continue;
    run_->fail("the threads of group " + std::to_string(members_[m].group) + " hold " + std::to_string(total) + " registers together, and it has " + std::to_string(pool));
    return false;
  }
  return true;
}

void Crew::enter_cluster_barrier(int line) {
  Fiber& mine = fibers_[static_cast<size_t>(current_)];
  mine.state = State::at_cluster_barrier;
  mine.line = line;
  if (++at_cluster_barrier_ == fiber_count_) {
    at_cluster_barrier_ = 0;
    for (int f = 0; f < fiber_count_; ++f) make_ready(f);
  }
  wait();
}

void* Crew::remote(const void* at, int bytes, int rank, int line) {
  attempt([&] {
    if (rank < 0 || rank >= static_cast<int>(members_.size())) return here("loads from another group's scratch", line) + "the cluster has no rank " + std::to_string(rank);
    if (!member().scratch.holds(at, static_cast<size_t>(bytes))) return here("loads from another group's scratch", line) + "the address is none of scratch";
    if (members_[static_cast<size_t>(rank)].alive == 0) return here("loads from another group's scratch", line) + "the group of rank " + std::to_string(rank) + " has ended";
    return std::string();
  });
  return members_[static_cast<size_t>(rank)].scratch.at + member().async.offset_of(at);
}

}  // namespace rtx::backend::emulator

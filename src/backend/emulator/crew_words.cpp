// How a launch fails, and what is said of the threads of a crew: who is where, and who waits for what.
#include "backend/emulator/crew.h"
#include "backend/emulator/signals.h"

namespace rtx::backend::emulator {

using rtx_emulation::Collective;

namespace {

std::string span_of(int first, int last) {
  return first == last ? "thread " + std::to_string(first) : "threads " + std::to_string(first) + "-" + std::to_string(last);
}

}  // namespace

void Run::fail(std::string sentence) {
  const std::lock_guard lock(mutex_);
  if (!failed) failure_ = std::move(sentence);
  failed = true;
}
void Run::fault_at(const void* address, std::string sentence) {
  {
    const std::lock_guard lock(mutex_);
    if (failed) return;
    fault_address_ = address;
  }
  fail(std::move(sentence));
}
std::string Run::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}
void Run::join(pthread_t thread) {
  const std::lock_guard lock(mutex_);
  crews_.push_back(thread);
}
void Run::leave(pthread_t thread) {
  const std::lock_guard lock(mutex_);
  for (size_t k = 0; k < crews_.size(); ++k)
    if (pthread_equal(crews_[k], thread)) {
      crews_.erase(crews_.begin() + static_cast<std::ptrdiff_t>(k));
      return;
    }
}
void Run::interrupt() {
  expired = true;
  const std::lock_guard lock(mutex_);
  for (const pthread_t thread : crews_) pthread_kill(thread, kInterrupt);
}

const char* Crew::name_of(Collective::Kind kind) {
  switch (kind) {
    case Collective::barrier: return "wave_barrier";
    case Collective::shuffle: return "a shuffle";
    case Collective::any: return "wave_any";
    case Collective::all: return "wave_all";
    case Collective::elect: return "elect_one";
    case Collective::load_matrix: return "load_matrix";
    case Collective::load_matrix_transposed: return "load_matrix_transposed";
    case Collective::store_matrix: return "store_matrix";
    default: return "mma";
  }
}

std::string Crew::thread_of_group() const { return "thread " + std::to_string(thread()) + " of group " + std::to_string(members_[static_cast<size_t>(member_number())].group); }
std::string Crew::here(const char* does, int line) const { return thread_of_group() + " " + does + " in line " + std::to_string(line) + ": "; }

// "threads 0-31 wait at barrier() in line 120, threads 32-63 have ended".
std::string Crew::who_waits() const {
  const auto place = [&](int t) -> std::string {
    const Fiber& fiber = fibers_[static_cast<size_t>(t)];
    const std::string line = " in line " + std::to_string(fiber.line);
    switch (fiber.state) {
      case State::ended: return " ended";
      case State::ready: return " can go on";
      case State::at_barrier:
        return " at " + (fiber.barrier == 0 ? std::string("barrier()") : "barrier(" + std::to_string(fiber.barrier) + ", " + std::to_string(fiber.count) + ")") + line;
      case State::in_collective: return " in " + std::string(name_of(fiber.part->kind)) + line;
      case State::at_products: return " in wgmma_wait" + line;
      case State::at_cluster_barrier: return " at cluster_barrier()" + line;
      case State::at_mbarrier:
        return line + " for parity " + std::to_string(fiber.count) + " of " + members_[static_cast<size_t>(t / run_->threads)].mbarriers.text_at(static_cast<size_t>(fiber.barrier));
    }
    return {};
  };
  std::string out;
  for (size_t m = 0; m < members_.size(); ++m) {
    if (members_.size() > 1) out += (m ? "; group " : "group ") + std::to_string(members_[m].group) + ": ";
    const int first = static_cast<int>(m) * run_->threads;
    int parts = 0;
    for (int t = 0; t < run_->threads && parts < 8;) {
      const std::string here = place(first + t);
      int end = t + 1;
      while (end < run_->threads && place(first + end) == here) ++end;
      out += (parts++ ? ", " : "") + span_of(t, end - 1) + here;
      t = end;
      if (parts == 8 && t < run_->threads) out += ", ...";
    }
  }
  return out;
}

void Crew::note(std::string sentence) {
  run_->fail(sentence.find(" group ") == std::string::npos && sentence.rfind("group ", 0) != 0 ? "group " + std::to_string(member().group) + ": " + sentence : std::move(sentence));
}

}  // namespace rtx::backend::emulator

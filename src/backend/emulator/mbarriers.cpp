#include "backend/emulator/mbarriers.h"

#include <cstring>

namespace rtx::backend::emulator {

namespace {

constexpr uint64_t kMark = 0x6d62617200000000u;  // above the barrier's number

}  // namespace

std::string Mbarriers::make(void* at, int arrivals, int thread, int line) {
  if (!scratch_.holds(at, 8) || reinterpret_cast<uintptr_t>(at) % 8 != 0) return "at no aligned place of its group's scratch";
  if (arrivals < 1 || arrivals >= 1 << 20) return "of " + std::to_string(arrivals) + " arrivals";
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(at) - scratch_.at);
  size_t number = 0;
  while (number < barriers_.size() && barriers_[number].offset != offset) ++number;
  if (number == barriers_.size()) barriers_.emplace_back();
  barriers_[number] = {offset, arrivals, arrivals, line, thread, 0, 0, false};
  const uint64_t word = kMark | number;
  std::memcpy(at, &word, 8);
  return {};
}

void Mbarriers::made_by(int thread) {
  for (Barrier& barrier : barriers_)
    if (barrier.maker == thread) barrier.usable = true;
}

Mbarriers::Barrier* Mbarriers::find(const void* at, std::string* problem) {
  uint64_t word = 0;
  if (scratch_.holds(at, 8)) std::memcpy(&word, at, 8);
  else *problem = "an mbarrier outside of the group's scratch";
  if (!problem->empty()) return nullptr;
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(at) - scratch_.at);
  const uint64_t number = word & 0xffffffffu;
  if ((word & ~uint64_t{0xffffffffu}) != kMark || number >= barriers_.size() || barriers_[number].offset != offset) {
    bool stood = false;
    for (const Barrier& barrier : barriers_) stood = stood || barrier.offset == offset;
    *problem = "the mbarrier at scratch + " + std::to_string(offset) + (stood ? ", which was overwritten" : ", which nobody made with mbarrier_init()");
    return nullptr;
  }
  if (!barriers_[number].usable) {
    *problem = text(barriers_[number]) + " before mbarrier_init_done()";
    return nullptr;
  }
  return &barriers_[number];
}

bool Mbarriers::complete(Barrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes != 0) return false;
  barrier.pending = barrier.arrivals;
  ++barrier.phase;
  return true;
}

std::string Mbarriers::arrive(Barrier& barrier, bool* completed) {
  if (barrier.pending == 0) return "one arrival too many at " + text(barrier);
  --barrier.pending;
  *completed = complete(barrier);
  return {};
}

bool Mbarriers::bytes_came(Barrier& barrier, int64_t bytes) {
  barrier.bytes -= bytes;
  return complete(barrier);
}

std::string Mbarriers::text_at(size_t offset) const {
  for (const Barrier& barrier : barriers_)
    if (barrier.offset == offset) return text(barrier);
  return "an mbarrier";
}

std::string Mbarriers::text(const Barrier& barrier) {
  std::string out = "the mbarrier at scratch + " + std::to_string(barrier.offset) + " of line " + std::to_string(barrier.line) + " (" + std::to_string(barrier.pending) + " of " +
                    std::to_string(barrier.arrivals) + " arrivals to come";
  if (barrier.bytes > 0) out += ", " + std::to_string(barrier.bytes) + " bytes to come";
  if (barrier.bytes < 0) out += ", " + std::to_string(-barrier.bytes) + " bytes more than expected came";
  return out + ")";
}

}  // namespace rtx::backend::emulator

#include "backend/emulator/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend/emulator/pattern.h"

namespace rtx::backend::emulator {

namespace {

// Larger memory is left as the system gives it, so that a reservation costs nothing until it is used.
constexpr size_t kMostFilled = 64 << 20;

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(std::max(4096L, sysconf(_SC_PAGESIZE)));
  return bytes;
}
// Nobody may touch what lies around an allocation for this far: a wild store must not find another one's memory.
constexpr size_t kFarBytes = 1 << 20;
size_t zone_bytes() { return std::max(kZoneBytes, page_bytes()); }  // keeps what is allocated aligned to a page

std::string size_in_words(size_t bytes) { return "an allocation of " + std::to_string(bytes) + " bytes"; }

}  // namespace

Memory::~Memory() {
  for (const auto& [at, allocation] : allocations_) munmap(allocation.mapping, allocation.mapping_bytes);
}

// | far | zone | bytes | zone, up to a page's end | far |
Result<void*> Memory::allocate(int64_t bytes) {
  const auto failed = [&](const char* why) { return error_of(ErrorKind::device, "cannot allocate " + std::to_string(bytes) + " bytes", why); };
  if (bytes < 0 || bytes > INT64_MAX / 2) return failed("memory is exhausted");
  const size_t page = page_bytes(), zone = zone_bytes(), size = static_cast<size_t>(bytes);
  const size_t inner = (zone + size + zone + page - 1) / page * page, total = inner + 2 * kFarBytes;
  void* got = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return failed("memory is exhausted");
  auto* const mapping = static_cast<std::byte*>(got);
  if (mprotect(mapping + kFarBytes, inner, PROT_READ | PROT_WRITE) != 0) {
    const int reason = errno;
    munmap(got, total);
    return failed(reason == ENOMEM ? "memory is exhausted" : std::strerror(reason));
  }
  std::byte* const at = mapping + kFarBytes + zone;
  std::byte* const end = mapping + kFarBytes + inner;
  if (size <= kMostFilled) {
    fill_pattern(mapping + kFarBytes, inner);
  } else {
    fill_pattern(mapping + kFarBytes, zone);
    fill_pattern(at + size, static_cast<size_t>(end - at) - size);
  }
  const std::lock_guard lock(mutex_);
  allocations_[at] = {mapping, total, size};
  return static_cast<void*>(at);
}

void Memory::release(void* pointer) {
  if (!pointer) return;
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(static_cast<std::byte*>(pointer));
  if (found == allocations_.end()) {
    lost_ = "memory was released that is not allocated";
    return;
  }
  if (const std::string damage = judge(found->first, found->second); !damage.empty() && lost_.empty()) lost_ = damage;
  munmap(found->second.mapping, found->second.mapping_bytes);
  allocations_.erase(found);
}

Memory::Map::const_iterator Memory::around(const void* pointer) const {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(pointer));
  auto next = allocations_.upper_bound(at);
  if (next == allocations_.begin()) return allocations_.end();
  const auto here = std::prev(next);
  return at <= here->first + here->second.bytes ? here : allocations_.end();
}

std::optional<Memory::Range> Memory::find(const void* pointer, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto found = around(pointer);
  if (found == allocations_.end()) return std::nullopt;
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(pointer) - found->first);
  if (bytes > found->second.bytes - offset) return std::nullopt;
  return Range{found->first, found->second.bytes};
}

std::string Memory::judge(std::byte* at, const Allocation& allocation) {
  const size_t zone = zone_bytes();
  std::byte* const end = allocation.mapping + allocation.mapping_bytes - kFarBytes;
  const auto behind = static_cast<size_t>(end - at) - allocation.bytes;
  const size_t past = find_change(at + allocation.bytes, behind);
  if (past != behind) {
    fill_pattern(at + allocation.bytes, behind);
    return std::to_string(past) + " bytes past the end of " + size_in_words(allocation.bytes) + " something was written";
  }
  if (find_change(at - zone, zone) != zone) {
    const size_t before = zone - find_last_change(at - zone, zone);
    fill_pattern(at - zone, zone);
    return std::to_string(before) + " bytes before " + size_in_words(allocation.bytes) + " something was written";
  }
  return {};
}

std::string Memory::damage_of(const void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = around(pointer);
  return found == allocations_.end() ? std::string() : judge(found->first, found->second);
}

std::string Memory::damage() {
  const std::lock_guard lock(mutex_);
  std::string out = std::move(lost_);
  lost_.clear();
  for (const auto& [at, allocation] : allocations_) {
    std::string damage = judge(at, allocation);
    if (out.empty()) out = std::move(damage);
  }
  return out;
}

std::string Memory::describe(const void* address) const {
  const std::lock_guard lock(mutex_);
  auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
  if (!at) return "the null pointer";
  const auto next = allocations_.upper_bound(at);
  std::string out = "far from any allocation";
  ptrdiff_t nearest = kFarBytes + kZoneBytes;
  if (next != allocations_.end() && next->first - at < nearest) {
    nearest = next->first - at;
    out = std::to_string(nearest) + " bytes before " + size_in_words(next->second.bytes);
  }
  if (next != allocations_.begin()) {
    const auto here = std::prev(next);
    const ptrdiff_t past = at - (here->first + here->second.bytes);
    if (past < nearest) out = past < 0 ? "in " + size_in_words(here->second.bytes) : std::to_string(past) + " bytes past the end of " + size_in_words(here->second.bytes);
  }
  return out;
}

}  // namespace rtx::backend::emulator

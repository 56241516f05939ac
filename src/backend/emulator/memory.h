#pragma once
// Device memory of the emulator: host memory between two zones of a known pattern, and a MiB on either side that nobody may touch.
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"

namespace rtx::backend::emulator {

class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Result<void*> allocate(int64_t bytes);
  void release(void* pointer);

  struct Range {
    std::byte* at;
    size_t bytes;
  };
  // The allocation that [pointer, pointer + bytes) lies in.
  std::optional<Range> find(const void* pointer, size_t bytes) const;
  // Zones of the allocation that `pointer` lies in, or of all: empty when they are as they were, else "12 bytes past the end of
  // an allocation of 4096 bytes were written". A damaged zone is reported once.
  std::string damage_of(const void* pointer);
  std::string damage();
  // Where an address lies, in words: "4 bytes past the end of an allocation of 64 bytes".
  std::string describe(const void* address) const;

 private:
  struct Allocation {
    std::byte* mapping;
    size_t mapping_bytes, bytes;
  };
  using Map = std::map<std::byte*, Allocation>;
  Map::const_iterator around(const void* pointer) const;
  static std::string judge(std::byte* at, const Allocation& allocation);

  mutable std::mutex mutex_;
  Map allocations_;
  std::string lost_;  // damage found when memory was released
};

}  // namespace rtx::backend::emulator

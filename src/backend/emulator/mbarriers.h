#pragma once
// Barriers in a group's scratch that count arrivals and bytes. What a barrier's eight bytes hold is its number here, so that one
// that was overwritten, or never made, is told from one that stands.
#include <cstdint>
#include <string>
#include <vector>

#include "backend/emulator/collective.h"

namespace rtx::backend::emulator {

class Mbarriers {
 public:
  struct Barrier {
    size_t offset = 0;  // in scratch
    int arrivals = 0, pending = 0, line = 0, maker = 0;
    int64_t bytes = 0;   // expected and not arrived; below 0: arrived and not expected
    uint32_t phase = 0;  // phases that are complete
    bool usable = false;
  };

  void begin(SharedMemory scratch) { scratch_ = scratch, barriers_.clear(); }
  std::string make(void* at, int arrivals, int thread, int line);
  void made_by(int thread);  // mbarrier_init_done
  // Null and a sentence where no usable barrier stands.
  Barrier* find(const void* at, std::string* problem);
  // Arrivals and bytes that came (bytes below 0: expected ones); sets `completed` where that ends the phase.
  std::string arrive(Barrier& barrier, bool* completed);
  static void expect(Barrier& barrier, int64_t bytes) { barrier.bytes += bytes; }
  bool bytes_came(Barrier& barrier, int64_t bytes);
  static bool is_complete(const Barrier& barrier, uint32_t parity) { return (barrier.phase & 1) != (parity & 1); }
  // "the mbarrier at scratch + 64 (line 12; 1 of 2 arrivals to come, 4096 bytes to come)".
  static std::string text(const Barrier& barrier);
  std::string text_at(size_t offset) const;

 private:
  static bool complete(Barrier& barrier);

  SharedMemory scratch_;
  std::vector<Barrier> barriers_;
};

}  // namespace rtx::backend::emulator

#pragma once
// What the lanes of a wave do together, computed for all of them at once.
#include <cstddef>
#include <string>

#include "backend/emulator/prelude_abi.h"

namespace rtx::backend::emulator {

constexpr int kWave = 32;

struct SharedMemory {
  std::byte* at = nullptr;
  size_t bytes = 0;
  bool holds(const void* p, size_t count) const {
    const auto* q = static_cast<const std::byte*>(p);
    return q >= at && q + count <= at + bytes;
  }
};

// All lanes have arrived with the same kind from the same line. Returns an empty string, or a sentence about what was wrong.
std::string perform(rtx_emulation::Collective* const* lanes, int count, const SharedMemory& shared, bool has_store_matrix);

}  // namespace rtx::backend::emulator

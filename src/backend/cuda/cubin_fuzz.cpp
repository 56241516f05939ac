// Any bytes into the reader of CUDA binaries: it refuses with a reason, or what it says is within bounds.
#include <cstdint>
#include <cstdlib>

#include "backend/cuda/cubin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto cubin = rtx::backend::cuda::read_cubin({reinterpret_cast<const std::byte*>(data), size});
  if (!cubin.ok()) {
    if (cubin.error().kind != rtx::ErrorKind::bundle || cubin.error().why.empty()) std::abort();
    return 0;
  }
  for (const auto& entry : cubin->entries)
    if (entry.registers < 0 || entry.barriers < 0 || entry.max_threads < 0 || entry.static_shared < 0 || entry.stack < 0) std::abort();
  return 0;
}

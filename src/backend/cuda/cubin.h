#pragma once
// What a CUDA binary (an ELF file) says of itself, read without a driver or a vendor's tool.
#include <cstddef>
#include <span>
#include <vector>

#include "backend/kernel.h"
#include "base/result.h"

namespace rtx::backend::cuda {

struct Cubin {
  int capability = 0;  // 90: the arch it is for, without the "a"
  std::vector<KernelResources> entries;  // by name; spills are 0 here, only the compiler's log knows them
};

// Kind bundle for bytes that are no CUDA binary, or a damaged one. Never reads outside of `bytes`.
Result<Cubin> read_cubin(std::span<const std::byte> bytes);

}  // namespace rtx::backend::cuda

#pragma once
// The CPU device: shared objects loaded from memory, launches on a thread pool, host memory as device memory.
#include <memory>

#include "backend/device.h"

namespace rtx::backend::cpu {

// `threads` 0: all the process may run on. `arch` (optional) pretends to an older level, "x86-64-v3" on an AVX-512 machine.
std::shared_ptr<Device> make_device(int threads = 0, const std::string& arch = {});

}  // namespace rtx::backend::cpu

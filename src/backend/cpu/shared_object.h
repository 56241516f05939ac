#pragma once
// Shared objects that are loaded from memory: nothing touches a disk.
#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace rtx::backend::cpu {

// A handle for dlsym and dlclose. Kind device for what is no shared object of this machine.
Result<void*> open_shared_object(std::span<const std::byte> binary, const std::string& name);

}  // namespace rtx::backend::cpu

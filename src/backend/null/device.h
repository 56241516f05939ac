#pragma once
// The null device: host memory, modules whose entries can be looked up, and no way to run them.
#include <memory>

#include "backend/device.h"

namespace rtx::backend::null {

std::shared_ptr<Device> make_device();

}  // namespace rtx::backend::null

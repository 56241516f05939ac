#pragma once
// The device that every runtime carries: the CPU. Declared here and defined by the CPU's device side, so that the runtime needs to
// know no vendor; whoever links rtx_runtime gets it.
#include <memory>

#include "backend/device.h"

namespace rtx::backend {

// `threads` 0: all the process may run on.
std::shared_ptr<Device> embedded_device(int threads = 0);

}  // namespace rtx::backend

#pragma once
// One NVIDIA GPU through the driver API: its primary context, shared with everybody else in the process.
#include <memory>

#include "backend/cuda/driver_table.h"
#include "backend/device.h"

namespace rtx::backend::cuda {

// Kind device when there is no such device, or one whose caps say it is too old. Neither makes a context: the device's first use does.
Result<Caps> identify(const Driver& driver, int ordinal);
Result<std::shared_ptr<Device>> make_device(std::shared_ptr<const Driver> driver, int ordinal);

}  // namespace rtx::backend::cuda

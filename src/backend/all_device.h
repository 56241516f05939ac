#pragma once
// Every device side this build has. Only tools and tests include this: everybody else sees Device and Caps.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device.h"

namespace rtx::backend {

struct DeviceSide {
  std::string_view target;
  // What is here, without making a device; kind device with the reason when nothing is.
  Result<Caps> (*identify)(int threads);
  // `threads` 0: all the process may run on. `arch` (optional): an older level of this machine's.
  std::shared_ptr<Device> (*device)(int threads, const std::string& arch);
  // Does code for `arch` run on a device with these caps?
  bool (*runs_on)(const std::string& arch, const Caps& here);
};

const std::vector<DeviceSide>& all_devices();

}  // namespace rtx::backend

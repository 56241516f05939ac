#pragma once
// Every device side this build has. Only tools and tests include this: everybody else sees Device and Caps.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device.h"

namespace rtx::backend {

// What an entry of a binary takes of a core, and how full it leaves the core.
struct Footprint {
  KernelResources resources;
  int threads = 0;            // of a group, as launched
  int64_t scratch_bytes = 0;  // shared memory asked for at the launch
  int groups = 0;             // resident on one core
  double share = 0;           // of the waves that a core holds
  std::string limit;          // what ends it: "registers", ...
};

struct DeviceSide {
  std::string_view target;
  // How many devices of the target there are; 0 where nobody can tell.
  int (*count)();
  // What device `ordinal` is, without making it; kind device with the reason when there is none.
  Result<Caps> (*identify)(int threads, int ordinal);
  // `threads` 0: all the process may run on. `arch` (optional): an older level of this machine's.
  Result<std::shared_ptr<Device>> (*device)(int threads, const std::string& arch, int ordinal);
  // Does code for `arch` run on a device with these caps?
  bool (*runs_on)(const std::string& arch, const Caps& here);
  // (optional) Of one entry, from the binary alone; kind user where such a launch cannot be.
  Result<Footprint> (*footprint)(std::span<const std::byte> binary, const std::string& arch, const std::string& entry, int threads, int64_t scratch_bytes) = nullptr;
};

const std::vector<DeviceSide>& all_devices();

}  // namespace rtx::backend

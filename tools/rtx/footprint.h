#pragma once
// Registers, shared memory and occupancy of kernels, for explain and inspect.
#include <span>
#include <string>
#include <vector>

#include "backend/all_device.h"

namespace rtx::tools {

struct Launched {
  std::string entry;
  int64_t threads = 1, scratch_bytes = 0;
};
// One an entry and way to launch it, in the order given; empty where the target does not tell.
std::vector<backend::Footprint> footprints(const std::string& target, const std::string& arch, std::span<const std::byte> binary, const std::vector<Launched>& launches);
// "softmax: 32 registers, 1.0 KiB shared, 128 threads a group; 12 groups a core, 75 % of its waves, limited by registers"
std::string text(const backend::Footprint& footprint);

}  // namespace rtx::tools

#pragma once
// How many groups of a kernel an SM holds at once: the least of what registers, threads, shared memory and group slots allow.
#include "backend/caps.h"
#include "backend/kernel.h"
#include "base/result.h"

namespace rtx::backend::cuda {

// What an SM of an arch shares among its groups.
struct CoreLimits {
  int registers = 65536;
  int register_unit = 256;         // registers are dealt to waves in these steps
  int parts = 4;                   // an SM's schedulers, each with a quarter of the registers
  int max_threads = 2048;
  int max_groups = 32;
  int64_t shared_bytes = 0;        // of all groups together, the driver's share included
  int64_t shared_unit = 128;
  int64_t reserved_shared = 1024;  // the driver's, a group
};
CoreLimits core_limits(const std::string& arch);

struct Occupancy {
  int groups = 0;           // resident on one SM; 0: the launch is not possible
  int waves = 0;            // groups x waves of a group
  double share = 0;         // of the waves an SM can hold
  const char* limit = "";   // what ends it: "registers", "threads", "shared memory", "groups"
};
// `threads` of a group and `dynamic_shared` bytes as launched. Kind user where the launch cannot be: found against allowed.
Result<Occupancy> occupancy(const KernelResources& kernel, int threads, int64_t dynamic_shared, const Caps& caps);

}  // namespace rtx::backend::cuda

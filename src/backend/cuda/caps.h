#pragma once
// What an NVIDIA GPU can do: of an arch without a device (kernels are made for sm_80 to sm_120 on a machine without a GPU), and of a
// device from what its driver says. One table serves both, so that a kernel emitted for either obeys the same rules.
#include <string>
#include <vector>

#include "backend/caps.h"
#include "base/result.h"

namespace rtx::backend::cuda {

// The arches kernels are proven for: "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120".
const std::vector<std::string>& known_arches();

// The usual product of an arch, as far as emitted code depends on it; `device` is "any <arch>" and `driver` "none". Takes the
// arches above and their spellings with and without the architecture-specific "a". Kind user for anything else.
Result<Caps> caps_of_arch(const std::string& arch);

// The arch that code for a device of this compute capability is compiled for: {9, 0} -> "sm_90a", {12, 1} -> "sm_121".
std::string arch_of_capability(int major, int minor);

// {9, 0} of "sm_90a"; {0, 0} for text that names no arch.
struct Capability {
  int major = 0, minor = 0;
  bool specific = false;  // ends in "a": runs on this capability only
};
Capability capability_of(const std::string& arch);

// Does a binary for `arch` run on a device whose caps name `here.arch`? A cubin runs on its own major capability from its minor up;
// an architecture-specific one on exactly its own.
bool runs_on(const std::string& arch, const Caps& here);

// What the driver's attributes say about one device.
struct DeviceFacts {
  std::string name;                    // "NVIDIA H200"
  int major = 0, minor = 0;            // compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t shared_bytes_per_group = 0;  // opt-in maximum
  int max_threads_per_group = 1024;
  int clock_khz = 0;                   // of the multiprocessors; 0: unknown
  int memory_clock_khz = 0;            // 0: unknown (newer drivers stopped telling)
  int memory_bus_bits = 0;
  std::string partition;               // MIG instance; empty: the whole device
  std::string driver;                  // as the vendor names it: "580.159.03", else the CUDA version it supports
};
// Kind device for a capability below 8.0: what is missing and what would do.
Result<Caps> caps_of_device(const DeviceFacts& facts);

}  // namespace rtx::backend::cuda

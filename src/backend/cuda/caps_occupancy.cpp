#include "backend/cuda/caps_occupancy.h"

#include <algorithm>

#include "backend/cuda/caps.h"

namespace rtx::backend::cuda {

namespace {

int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

}  // namespace

// Figures: the compute-capability table of the CUDA C++ Programming Guide, and cuda_occupancy.h of CUDA 13.0.
CoreLimits core_limits(const std::string& arch) {
  const Capability of = capability_of(arch);
  CoreLimits out;
  const bool data_centre = (of.major == 8 && of.minor == 0) || of.major == 9 || (of.major == 10 && of.minor != 1);
  if (data_centre) {
    out.shared_bytes = (of.major == 8 ? 164 : 228) << 10;
    return out;
  }
  out.max_threads = 1536;
  out.max_groups = of.major == 8 && of.minor != 9 ? 16 : 24;
  out.shared_bytes = (of.major == 8 && of.minor == 7 ? 164 : of.major == 10 || of.major == 11 ? 228 : 100) << 10;
  return out;
}

Result<Occupancy> occupancy(const KernelResources& kernel, int threads, int64_t dynamic_shared, const Caps& caps) {
  const CoreLimits core = core_limits(caps.arch);
  const std::string what = "kernel " + kernel.entry + " cannot be launched with " + std::to_string(threads) + " threads a group";
  const int most = kernel.max_threads > 0 ? std::min(kernel.max_threads, caps.max_threads_per_group) : caps.max_threads_per_group;
  if (threads < 1 || threads > most) return user_error(what, "it was compiled for 1 to " + std::to_string(most));
  const int64_t shared = kernel.static_shared + dynamic_shared;
  if (shared > caps.scratch_bytes)
    return user_error(what, "it asks for " + std::to_string(shared) + " bytes of shared memory, " + caps.arch + " gives a group " + std::to_string(caps.scratch_bytes));

  const int waves = (threads + caps.lanes_per_wave - 1) / caps.lanes_per_wave;
  Occupancy out;
  out.groups = core.max_groups;
  out.limit = "groups";
  const auto allow = [&](int64_t groups, const char* limit) {
    if (groups < out.groups) out.groups = static_cast<int>(groups), out.limit = limit;
  };
  allow(core.max_threads / (waves * caps.lanes_per_wave), "threads");
  // Each part of the SM holds as many waves as its registers allow. A launch is refused as if a group always took all parts alike.
  if (kernel.registers > 0) {
    const int64_t wave_registers = round_up(int64_t{kernel.registers} * caps.lanes_per_wave, core.register_unit);
    const int64_t resident = core.registers / core.parts / wave_registers * core.parts;
    allow(wave_registers * round_up(waves, core.parts) > core.registers ? 0 : resident / waves, "registers");
  }
  allow(core.shared_bytes / round_up(shared + core.reserved_shared, core.shared_unit), "shared memory");
  if (out.groups < 1) return user_error(what, std::string("one group takes more ") + out.limit + " than an SM of " + caps.arch + " has");
  out.waves = out.groups * waves;
  out.share = static_cast<double>(out.waves) * caps.lanes_per_wave / core.max_threads;
  return out;
}

}  // namespace rtx::backend::cuda

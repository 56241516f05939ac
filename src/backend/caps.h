#pragma once
// Caps: what a device can do, as families see it. A family never learns a vendor's name; it states rules on these fields.
#include <cstdint>
#include <set>
#include <string>

namespace rtx::backend {

struct Caps {
  // Identity, part of every cache key and of the bundle's manifest.
  std::string target;  // "cpu", "cuda", ...
  std::string device;  // CPU: product, ISA features, caches, threads; GPU: product, SMs, memory, partition
  std::string arch;    // "x86-64-v3", "x86-64-v4", "armv8-a", "sm_90a"
  std::string driver;  // CPU: "none"

  // Shape of the machine.
  int cores = 1;                // cores (threads) or SMs a launch may fill
  int vector_bits = 128;        // CPU: SIMD register width; GPU: a thread's widest access to memory
  int vector_registers = 16;
  int lanes_per_wave = 1;       // 1 on a CPU: a group has one lane
  int max_threads_per_group = 1;
  int64_t scratch_bytes = 1 << 20;  // per group: CPU scratch per thread, GPU shared memory
  int64_t l1_bytes = 32 << 10, l2_bytes = 512 << 10, l3_bytes = 8 << 20;
  std::set<std::string> features;  // "fma", "f16c", "avx512f", "mma", "wgmma", "tma", ...

  // Ceilings for the roofline estimate; estimates until a profile has measured them.
  double peak_gflops_f32 = 10.0;  // all cores
  double peak_gflops_16 = 0;      // products of f16 and bf16 by matrix units, summed in f32; 0: as f32
  double copy_gbps = 10.0;

  bool has(const std::string& feature) const { return features.count(feature) != 0; }
};

}  // namespace rtx::backend

#include "backend/cuda/caps.h"

#include <cstdio>

#include "base/text.h"

namespace rtx::backend::cuda {

namespace {

// Sources. Shared memory a group may opt in to, and the limits of occupancy.cpp: the compute-capability table of the CUDA C++
// Programming Guide and cuda_occupancy.h of CUDA 13.0. Features: which instruction forms NVRTC 13.0 assembles for which arch;
// compile_test.cpp tries each of them. Machines: NVIDIA's datasheets for SMs, L2 and memory; f32 is SMs x lanes x 2 x boost
// clock. Copy: measured on an H200 (read and write, 4.3 of 4.8 TB/s), and that share (0.9) of the datasheet's bandwidth
// elsewhere. All of the machine's numbers are estimates until a profile has measured the device at hand.
struct Row {
  int major, minor;
  const char* arch;
  const char* product;
  int multiprocessors;
  int lanes;                 // f32 FMA a clock and SM
  double boost_ghz;
  double matrix_tflops;  // f16 and bf16 with f32 sums, dense, at the datasheet's clock
  double copy_gbps;
  int64_t l2_mib;
  int64_t shared_kib;        // opt-in, a group
  int64_t l1_kib;            // L1 and shared memory together, an SM
};
constexpr Row kRows[] = {
    {8, 0, "sm_80", "A100 80 GB", 108, 64, 1.410, 312, 1835, 40, 163, 192},
    {8, 6, "sm_86", "RTX 3090", 82, 128, 1.695, 71, 842, 6, 99, 128},
    {8, 9, "sm_89", "RTX 4090", 128, 128, 2.520, 165, 907, 72, 99, 128},
    {9, 0, "sm_90a", "H200", 132, 128, 1.980, 989, 4300, 60, 227, 256},
    {10, 0, "sm_100", "B200", 148, 128, 1.965, 2250, 7200, 126, 227, 256},
    {12, 0, "sm_120", "RTX 5090", 170, 128, 2.407, 209.5, 1613, 96, 99, 128},
};

// The row a capability is judged by: the newest of its major that is not newer than it, else nothing.
const Row* row_of(int major, int minor) {
  const Row* best = nullptr;
  for (const Row& row : kRows)
    if (row.major == major && row.minor <= minor) best = &row;
  return best;
}

std::set<std::string> features_of(int major, int minor, bool specific) {
  std::set<std::string> out = {"mma", "tf32", "cp_async", "ldmatrix"};
  if (major > 8 || minor >= 9) out.insert("fp8");
  if (major >= 9) out.insert({"store_matrix", "mbarrier", "tma"});
  // Clusters of more than one group are a data-centre feature: the guides of 12.x allow them no multicast, and no device of it was tried.
  if (major == 9 || major == 10) out.insert("cluster");
  if (major == 9 && specific) out.insert("wgmma");
  return out;
}

// What both doors share.
Caps shared_caps(const Row& row, const std::string& arch, int major, int minor, bool specific) {
  Caps caps;
  caps.target = "cuda";
  caps.arch = arch;
  caps.vector_bits = 128;
  caps.vector_registers = 255 / 4;  // 255 registers of 32 bits a thread
  caps.lanes_per_wave = 32;
  caps.max_threads_per_group = 1024;
  caps.scratch_bytes = row.shared_kib << 10;
  caps.l1_bytes = row.l1_kib << 10;
  caps.l2_bytes = row.l2_mib << 20;
  caps.l3_bytes = 0;
  caps.cores = row.multiprocessors;
  caps.features = features_of(major, minor, specific);
  caps.peak_gflops_f32 = row.multiprocessors * row.lanes * 2 * row.boost_ghz;
  caps.peak_gflops_16 = row.matrix_tflops * 1e3;
  caps.copy_gbps = row.copy_gbps;
  return caps;
}

}  // namespace

const std::vector<std::string>& known_arches() {
  static const std::vector<std::string> list = [] {
    std::vector<std::string> out;
    for (const Row& row : kRows) out.emplace_back(row.arch);
    return out;
  }();
  return list;
}

Capability capability_of(const std::string& arch) {
  if (!starts_with(arch, "sm_")) return {};
  std::string digits = arch.substr(3);
  Capability out;
  out.specific = ends_with(digits, "a");
  if (out.specific) digits.pop_back();
  int64_t number = 0;
  if (digits.size() < 2 || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos || !parse_int(digits, number)) return {};
  out.major = static_cast<int>(number / 10);
  out.minor = static_cast<int>(number % 10);
  return out;
}

std::string arch_of_capability(int major, int minor) {
  // Only 9.0 has instructions that this project uses and that its plain arch lacks (wgmma, setmaxnreg).
  return "sm_" + std::to_string(major) + std::to_string(minor) + (major == 9 && minor == 0 ? "a" : "");
}

Result<Caps> caps_of_arch(const std::string& arch) {
  const Capability capability = capability_of(arch);
  const Row* row = row_of(capability.major, capability.minor);
  if (!row || row->minor != capability.minor || (capability.specific && capability.major == 8))
    return user_error("no CUDA arch '" + arch + "'", "the arches are " + join(known_arches(), ", "), "name one of them, or leave --arch out for the device here");
  Caps caps = shared_caps(*row, arch, capability.major, capability.minor, capability.specific);
  caps.device = "any " + arch;
  caps.driver = "none";
  return caps;
}

bool runs_on(const std::string& arch, const Caps& here) {
  const Capability code = capability_of(arch), device = capability_of(here.arch);
  if (code.major == 0 || code.major != device.major) return false;
  return code.specific ? code.minor == device.minor : code.minor <= device.minor;
}

Result<Caps> caps_of_device(const DeviceFacts& facts) {
  const std::string capability = std::to_string(facts.major) + "." + std::to_string(facts.minor);
  if (facts.major < 8)
    return error_of(ErrorKind::device, "target cuda cannot use " + facts.name, "its compute capability is " + capability + ", kernels need 8.0 (Ampere) or newer",
                    "use a newer GPU, or --target cpu");
  // A device newer than the table is judged by the nearest older row: what that one can do stays true, its sizes come from the driver.
  const Row* row = row_of(facts.major, facts.minor);
  if (!row)
    for (const Row& candidate : kRows)
      if (candidate.major <= facts.major) row = &candidate;
  const std::string arch = arch_of_capability(facts.major, facts.minor);
  Caps caps = shared_caps(*row, arch, facts.major, facts.minor, ends_with(arch, "a"));

  char memory[32];
  std::snprintf(memory, sizeof memory, "%.0f GiB", static_cast<double>(facts.memory_bytes) / (1 << 30));
  caps.device = facts.name + ", " + std::to_string(facts.multiprocessors) + " SMs, " + memory + (facts.partition.empty() ? "" : ", " + facts.partition);
  caps.driver = facts.driver;
  if (facts.multiprocessors > 0) caps.cores = facts.multiprocessors;
  if (facts.l2_bytes > 0) caps.l2_bytes = facts.l2_bytes;
  if (facts.shared_bytes_per_group > 0) caps.scratch_bytes = facts.shared_bytes_per_group;
  if (facts.max_threads_per_group > 0) caps.max_threads_per_group = facts.max_threads_per_group;
  const double ghz = facts.clock_khz > 0 ? facts.clock_khz * 1e-6 : row->boost_ghz;
  caps.peak_gflops_f32 = static_cast<double>(caps.cores) * row->lanes * 2 * ghz;
  caps.peak_gflops_16 = row->matrix_tflops * 1e3 * caps.cores / row->multiprocessors;
  // Two transfers a clock; 0.9 of that is what a copy reaches.
  if (facts.memory_clock_khz > 0 && facts.memory_bus_bits > 0) caps.copy_gbps = 0.9 * 2 * facts.memory_clock_khz * 1e3 * (facts.memory_bus_bits / 8) * 1e-9;
  else caps.copy_gbps = row->copy_gbps * caps.cores / row->multiprocessors;
  return caps;
}

}  // namespace rtx::backend::cuda

#include "backend/cpu/identify.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

namespace rtx::backend::cpu {

namespace {

std::string product_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

int64_t cache_size(int name, int64_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

void detect_features(Caps& caps) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const auto add = [&](bool present, const char* feature) {
    if (present) caps.features.insert(feature);
  };
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"), "avx512-v4");
  const bool v3 = caps.has("avx2") && caps.has("fma") && __builtin_cpu_supports("bmi2");
  if (v3) caps.features.insert("f16c");  // part of the v3 level
  caps.arch = v3 && caps.has("avx512-v4") ? "x86-64-v4" : v3 ? "x86-64-v3" : "x86-64-v2";
  caps.vector_bits = caps.arch == "x86-64-v4" ? 512 : caps.arch == "x86-64-v3" ? 256 : 128;
  caps.vector_registers = caps.arch == "x86-64-v4" ? 32 : 16;
#elif defined(__aarch64__)
  caps.arch = "armv8-a";
  caps.vector_bits = 128;
  caps.vector_registers = 32;
  caps.features = {"neon", "fma"};
#else
  caps.arch = "generic";
  caps.vector_bits = 128;
#endif
}

// Quota of a cgroup v2 (or v1) in whole cores; 0 when there is none.
int cgroup_cores() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0)
    return std::max(1, static_cast<int>(std::ceil(std::strtod(quota.c_str(), nullptr) / period)));
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double limit = 0;
  if (v1_quota >> limit && v1_period >> period && limit > 0 && period > 0)
    return std::max(1, static_cast<int>(std::ceil(limit / period)));
  return 0;
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (const int limit = cgroup_cores(); limit > 0) cores = std::min(cores, limit);
  return std::max(1, cores);
}

Caps identify(int threads) {
  Caps caps;
  caps.target = "cpu";
  caps.driver = "none";
  detect_features(caps);
  caps.cores = threads > 0 ? threads : usable_cores();
  caps.l1_bytes = cache_size(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
  caps.l2_bytes = cache_size(_SC_LEVEL2_CACHE_SIZE, 512 << 10);
  caps.l3_bytes = cache_size(_SC_LEVEL3_CACHE_SIZE, 8 << 20);
  caps.scratch_bytes = 16 << 20;
  // Two FMA pipes at 2.5 GHz: an estimate that only orders candidates.
  caps.peak_gflops_f32 = caps.cores * 2.5 * 2 * 2 * (caps.vector_bits / 32);
  caps.copy_gbps = 8.0 + 4.0 * caps.cores;
  std::ostringstream device;
  device << product_name() << "; l1 " << (caps.l1_bytes >> 10) << "K l2 " << (caps.l2_bytes >> 10) << "K l3 " << (caps.l3_bytes >> 10)
         << "K; " << caps.cores << (caps.cores == 1 ? " thread" : " threads");
  caps.device = device.str();
  return caps;
}

bool runs_on(const std::string& arch, const Caps& here) {
  if (arch == here.arch) return true;
  static const std::vector<std::string> levels = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
  const auto wanted = std::find(levels.begin(), levels.end(), arch), present = std::find(levels.begin(), levels.end(), here.arch);
  return wanted != levels.end() && present != levels.end() && wanted <= present;
}

}  // namespace rtx::backend::cpu

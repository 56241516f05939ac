#include "backend/all_device.h"

#include <mutex>

#include "backend/cpu/device.h"
#include "backend/cpu/identify.h"
#include "backend/cuda/caps.h"
#include "backend/cuda/caps_occupancy.h"
#include "backend/cuda/cubin.h"
#include "backend/cuda/device.h"
#include "backend/emulator/caps.h"
#include "backend/emulator/device.h"

namespace rtx::backend {

namespace {

int one() { return 1; }
Status only_one(const char* target, int ordinal) {
  if (ordinal == 0) return success();
  return error_of(ErrorKind::device, "there is no device " + std::to_string(ordinal) + " of target " + target, std::string("target ") + target + " is one device, device 0", "leave --device out");
}

Result<Caps> identify_cpu(int threads, int ordinal) {
  RTX_CHECK(only_one("cpu", ordinal));
  return cpu::identify(threads);
}
Result<std::shared_ptr<Device>> cpu_device(int threads, const std::string& arch, int ordinal) {
  RTX_CHECK(only_one("cpu", ordinal));
  return cpu::make_device(threads, arch);
}

Result<Caps> identify_emulated(int, int ordinal) {
  RTX_CHECK(only_one("cuda-emulated", ordinal));
  return emulator::make_caps({});
}
// Any arch of the table can be played; a caller asks plays() before it comes here with one.
Result<std::shared_ptr<Device>> emulated_device(int threads, const std::string& arch, int ordinal) {
  RTX_CHECK(only_one("cuda-emulated", ordinal));
  emulator::Options options;
  options.threads = threads;
  options.arch = arch;
  options.check = true;
  return emulator::make_device(options);
}
bool plays(const std::string& arch, const Caps&) { return emulator::make_caps(arch).ok(); }

// The driver stays open once it was found; where there is none, the next question looks again.
Result<std::shared_ptr<const cuda::Driver>> driver() {
  static std::mutex mutex;
  static std::shared_ptr<const cuda::Driver> found;
  const std::lock_guard lock(mutex);
  if (!found) {
    RTX_TRY(found, cuda::Driver::open());
  }
  return found;
}
int count_cuda() {
  const auto opened = driver();
  return opened.ok() ? (*opened)->devices() : 0;
}
Result<Caps> identify_cuda(int, int ordinal) {
  RTX_TRY(const auto opened, driver());
  return cuda::identify(*opened, ordinal);
}
Result<std::shared_ptr<Device>> cuda_device(int, const std::string&, int ordinal) {
  RTX_TRY(auto opened, driver());
  return cuda::make_device(std::move(opened), ordinal);
}

Result<Footprint> cuda_footprint(std::span<const std::byte> binary, const std::string& arch, const std::string& entry, int threads, int64_t scratch_bytes) {
  RTX_TRY(const Caps caps, cuda::caps_of_arch(arch));
  RTX_TRY(const cuda::Cubin cubin, cuda::read_cubin(binary));
  for (const auto& resources : cubin.entries) {
    if (resources.entry != entry) continue;
    RTX_TRY(const cuda::Occupancy filled, cuda::occupancy(resources, threads, scratch_bytes, caps));
    return Footprint{resources, threads, scratch_bytes, filled.groups, filled.share, filled.limit};
  }
  return error_of(ErrorKind::bundle, "the binary has no entry " + entry);
}

}  // namespace

// One line a backend. null is not among them: it computes nothing.
const std::vector<DeviceSide>& all_devices() {
  static const std::vector<DeviceSide> list = {
      {"cpu", one, identify_cpu, cpu_device, cpu::runs_on},
      {"cuda", count_cuda, identify_cuda, cuda_device, cuda::runs_on, cuda_footprint},
      {"cuda-emulated", one, identify_emulated, emulated_device, plays},
  };
  return list;
}

}  // namespace rtx::backend

#include "backend/all_device.h"

#include <mutex>

#include "backend/cpu/device.h"
#include "backend/cpu/identify.h"
#include "backend/cuda/caps.h"
#include "backend/cuda/device.h"
#include "backend/emulator/caps.h"
#include "backend/emulator/device.h"

namespace rtx::backend {

namespace {

// Any arch of the table can be played; a caller asks plays() before it comes here with one.
std::shared_ptr<Device> emulated_device(int threads, const std::string& arch) {
  emulator::Options options;
  options.threads = threads;
  options.arch = arch;
  options.check = true;
  auto device = emulator::make_device(options);
  return device.ok() ? *device : nullptr;
}
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
Result<Caps> identify_cuda(int) {
  RTX_TRY(const auto opened, driver());
  return cuda::identify(*opened, 0);
}
std::shared_ptr<Device> cuda_device(int, const std::string&) {
  const auto opened = driver();
  if (!opened.ok()) return nullptr;
  auto device = cuda::make_device(*opened, 0);
  return device.ok() ? *device : nullptr;
}
bool plays(const std::string& arch, const Caps&) { return emulator::make_caps(arch).ok(); }

}  // namespace

// One line a backend. null is not among them: it computes nothing.
const std::vector<DeviceSide>& all_devices() {
  static const std::vector<DeviceSide> list = {
      {"cpu", [](int threads) -> Result<Caps> { return cpu::identify(threads); }, cpu::make_device,
       cpu::runs_on},
      {"cuda", identify_cuda, cuda_device, cuda::runs_on},
      {"cuda-emulated", [](int) -> Result<Caps> { return emulator::make_caps({}); }, emulated_device, plays},
  };
  return list;
}

}  // namespace rtx::backend

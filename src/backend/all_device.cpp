#include "backend/all_device.h"

#include "backend/cpu/device.h"
#include "backend/cpu/identify.h"
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
bool plays(const std::string& arch, const Caps&) { return emulator::make_caps(arch).ok(); }

}  // namespace

// One line a backend. null is not among them: it computes nothing.
const std::vector<DeviceSide>& all_devices() {
  static const std::vector<DeviceSide> list = {
      {"cpu", [](int threads) -> Result<Caps> { return cpu::identify(threads); }, cpu::make_device,
       cpu::runs_on},
      {"cuda-emulated", [](int) -> Result<Caps> { return emulator::make_caps({}); }, emulated_device, plays},
  };
  return list;
}

}  // namespace rtx::backend

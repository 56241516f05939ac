#include "backend/all_device.h"

#include "backend/cpu/device.h"
#include "backend/cpu/identify.h"

namespace rtx::backend {

// One line a backend. null is not among them: it computes nothing.
const std::vector<DeviceSide>& all_devices() {
  static const std::vector<DeviceSide> list = {
      {"cpu", [](int threads) -> Result<Caps> { return cpu::identify(threads); }, cpu::make_device,
       cpu::runs_on},
  };
  return list;
}

}  // namespace rtx::backend

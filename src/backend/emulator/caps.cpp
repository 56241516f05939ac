#include "backend/emulator/caps.h"

#include "backend/cpu/identify.h"
#include "backend/cuda/caps.h"

namespace rtx::backend::emulator {

Result<Caps> make_caps(const std::string& arch) {
  RTX_TRY(Caps caps, cuda::caps_of_arch(arch.empty() ? kDefaultArch : arch));
  caps.target = kTarget;
  caps.device = "emulated";
  caps.driver = "host " + cpu::identify(1).arch;
  caps.features.insert("emulated");
  return caps;
}

bool runs_on(const std::string& arch, const Caps& here) { return cuda::caps_of_arch(arch).ok() && (arch == here.arch || cuda::runs_on(arch, here)); }

}  // namespace rtx::backend::emulator

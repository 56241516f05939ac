#pragma once
// The GPU that the emulator plays: what kernels may use is the arch's, who it is says "emulated", so that no key or manifest of it
// can be taken for a real device's.
#include <string>

#include "backend/caps.h"
#include "base/result.h"

namespace rtx::backend::emulator {

inline constexpr const char* kTarget = "cuda-emulated";
inline constexpr const char* kDefaultArch = "sm_90a";

// `arch` empty: the default. The driver is the host's instruction set: binaries are its code.
Result<Caps> make_caps(const std::string& arch);
// A binary for one arch emulates only where that arch is played.
bool runs_on(const std::string& arch, const Caps& here);

}  // namespace rtx::backend::emulator

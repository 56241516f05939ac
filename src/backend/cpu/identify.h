#pragma once
// What this CPU is: product, instruction sets, caches, and the cores this process may run on.
#include "backend/caps.h"

namespace rtx::backend::cpu {

// `threads` 0: all cores of the process's affinity mask and cgroup quota.
Caps identify(int threads = 0);
// Cores by affinity and cgroup.
int usable_cores();
// True when code compiled for `arch` runs on a CPU with these caps ("x86-64-v3" runs on an "x86-64-v4" machine).
bool runs_on(const std::string& arch, const Caps& here);

}  // namespace rtx::backend::cpu

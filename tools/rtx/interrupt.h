#pragma once
// Ctrl-C: the first sets a flag that long work looks at and keeps what was done; the second ends the process at once.
#include <atomic>

namespace rtx::tools {

const std::atomic<bool>& interrupted();
void watch_interrupts();

}  // namespace rtx::tools

#pragma once
// What ptxas says about a kernel that it has compiled. Much that is wrong with a kernel is no error to it: registers that spill, a
// setmaxnreg it ignores, wgmma instructions it makes wait for each other. So the log is read on success too.
#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel.h"

namespace rtx::backend::cuda {

struct LogVerdict {
  std::vector<KernelResources> entries;  // by name
  std::string rejection;                 // why the binary must not be used, in the compiler's words; empty: it may
};
LogVerdict judge_log(std::string_view log);

// The log without what differs between two runs of the same compilation (its times), one line an entry in front.
std::string log_to_keep(std::string_view log, const std::vector<KernelResources>& entries);

// "k: 168 registers, 2 barriers, 384 threads, 1200 bytes shared, 0 bytes stack, 0 bytes spilled"
std::string text_of(const KernelResources& entry);

}  // namespace rtx::backend::cuda

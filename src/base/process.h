#pragma once
// Child processes: spawned (never forked, so that threads are no danger), in a group of their own, killed on time-out.
#include <atomic>
#include <string>
#include <vector>

#include "base/result.h"

namespace rtx {

struct ProcessResult {
  int exit_code = -1;      // of a process that ended by itself
  int signal = 0;          // the signal that ended it, else 0
  bool timed_out = false;
  std::string output;      // stdout and stderr together, at most `output_limit` bytes
};

struct ProcessOptions {
  double timeout_seconds = 60.0;
  const std::atomic<bool>* stop = nullptr;  // set: the child is killed and the run ends as timed out
  size_t output_limit = 1 << 20;
  std::vector<std::string> environment{};     // "NAME=value" added to ours
};

// arguments[0] is the program's path. An Error (kind device) only when it could not be started.
Result<ProcessResult> run_process(const std::vector<std::string>& arguments, const ProcessOptions& options = {});

// Resolved path of `name` in the colon-separated `path` list (or itself when it contains a slash); empty when not found.
std::string find_program(const std::string& name, const std::string& path);

}  // namespace rtx

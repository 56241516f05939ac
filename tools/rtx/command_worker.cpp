// rtx worker: the process that validates and times candidates; started by the tuner, speaks frames on stdin and stdout.
#include <unistd.h>

#include "rtx/options.h"
#include "rtx/workbench.h"
#include "tune/worker.h"

namespace rtx::tools {

Result<int> worker_command(const WorkerCommand& command, const Common& common) {
  RTX_TRY(auto device, make_device(command.target, common.threads, command.arch, common.device));
  // Frames go out on a private copy of stdout, so that nothing else can write between them.
  const int output = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return tune::serve_worker(*device, STDIN_FILENO, output);
}

}  // namespace rtx::tools

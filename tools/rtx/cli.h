#pragma once
#include "rtx/options.h"

namespace rtx::tools {

// Parses, runs the command, prints its error; gives the process's exit code.
int run_command_line(int argc, char** argv);

}  // namespace rtx::tools

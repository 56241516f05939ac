#pragma once
// What `--help` teaches below the options: what a command does, examples of its own, the exit codes that matter for it.
#include <string>

namespace rtx::tools {

std::string general_help();                            // of rtx itself, with the environment
std::string command_help(const std::string& command);  // empty for a command without a page

}  // namespace rtx::tools

#include "rtx/cli.h"

int main(int argc, char** argv) { return rtx::tools::run_command_line(argc, argv); }

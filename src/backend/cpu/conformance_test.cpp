// The CPU backend keeps every promise: both lists are empty. `ctest -R CpuConformance`.
#include <cstdlib>

#include "backend/conformance/register_testing.h"
#include "backend/cpu/compile.h"
#include "backend/cpu/device.h"
#include "backend/cpu/dialect.h"

namespace rtx::backend::cpu {
namespace {

std::unique_ptr<Compiler> compiler_on_path() {
  CompilerOptions options;
  if (const char* path = std::getenv("PATH")) options.path = path;
  return make_compiler(std::move(options));
}

// Three threads, so that a launch is divided even on one core.
[[maybe_unused]] const bool registered =
    conformance::register_checks("Cpu", {compiler_on_path, [] { return make_device(3); }, make_dialect}, {});

}  // namespace
}  // namespace rtx::backend::cpu

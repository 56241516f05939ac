// The emulator keeps every promise of a device: both lists are empty. `ctest -R EmulatorConformance`.
#include <cstdlib>

#include "backend/conformance/register_testing.h"
#include "backend/emulator/compile.h"
#include "backend/emulator/device.h"
#include "backend/emulator/dialect.h"

namespace rtx::backend::emulator {
namespace {

std::unique_ptr<Compiler> compiler_on_path() {
  cpu::CompilerOptions options;
  if (const char* path = std::getenv("PATH")) options.path = path;
  return emulator::make_compiler(std::move(options));
}

std::shared_ptr<Device> device_of_three_threads() {
  Options options;
  options.threads = 3;
  return *make_device(options);
}

[[maybe_unused]] const bool registered =
    conformance::register_checks("Emulator", {compiler_on_path, device_of_three_threads, make_dialect}, {});

// In both orders of threads.
std::shared_ptr<Device> checked_device() {
  Options options;
  options.threads = 2;
  options.check = true;
  return *make_device(options);
}

[[maybe_unused]] const bool registered_hopper = conformance::register_hopper_checks("Emulator", {compiler_on_path, checked_device, make_dialect});

}  // namespace
}  // namespace rtx::backend::emulator

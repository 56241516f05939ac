// CUDA's device and compiler held to every promise of the suite, where a GPU is; elsewhere one test says why nothing was tried.
#include <gtest/gtest.h>

#include "backend/conformance/register_testing.h"
#include "backend/cuda/compile_testing.h"
#include "backend/cuda/device.h"
#include "backend/cuda/dialect.h"

namespace rtx::backend::cuda {
namespace {

const Result<std::shared_ptr<const Driver>>& driver() {
  static const auto opened = Driver::open();
  return opened;
}
std::unique_ptr<Compiler> nvrtc() { return make_compiler(testing::options_here()); }
std::shared_ptr<Device> first_device() { return *make_device(*driver(), 0); }

TEST(CudaDevice, is_held_to_the_conformance_suite_where_a_gpu_is) {
  if (!driver().ok()) GTEST_SKIP() << driver().error().text();
}

bool has_hopper_set() {
  if (!driver().ok()) return false;
  const auto caps = identify(**driver(), 0);
  return caps.ok() && caps->has("wgmma");
}

[[maybe_unused]] const bool registered_hopper = has_hopper_set() && conformance::register_hopper_checks("Cuda", {nvrtc, first_device, make_dialect});
[[maybe_unused]] const bool registered = driver().ok() && conformance::register_checks("Cuda", {nvrtc, first_device, make_dialect}, {});

}  // namespace
}  // namespace rtx::backend::cuda

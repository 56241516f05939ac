// CUDA's device and compiler held to every promise of the suite, where a GPU is; elsewhere one test says why nothing was tried. And the
// device's code alone, on the fake driver, everywhere.
#include "backend/conformance/register_testing.h"
#include "backend/cuda/compile_testing.h"
#include "backend/cuda/dialect.h"
#include "backend/cuda/fake_driver_testing.h"

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

// Gives the fake driver's own kernels for the suite's text.
class FakeCompiler final : public Compiler {
 public:
  std::string target() const override { return "cuda"; }
  Result<std::string> toolchain(const std::string&) override { return std::string("fake"); }
  Result<Binary> compile(const CompileRequest& request) override {
    ++started_;
    if (request.text.find("this_is_no_type") != std::string::npos) return error_of(ErrorKind::internal, "it does not compile", "this_is_no_type is no type");
    return Binary{fake::fake_cubin({"conformance_count", "conformance_affine", "conformance_arguments", "conformance_scratch"})};
  }
  int64_t compiles_started() const override { return started_; }

 private:
  int64_t started_ = 0;
};
std::unique_ptr<Compiler> fake_compiler() { return std::make_unique<FakeCompiler>(); }
std::shared_ptr<Device> fake_device() { return *make_device(*open_fake("memory_mib=1024"), 0); }

[[maybe_unused]] const bool fake_registered =
    file_exists(fake_files().library) && conformance::register_checks("CudaOnFakeDriver", {fake_compiler, fake_device, make_dialect}, {});

}  // namespace
}  // namespace rtx::backend::cuda

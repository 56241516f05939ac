#pragma once
// The fake driver of tests/fake_cuda for tests of this folder.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fake_cuda/cubin_testing.h>
#include <string>

#include "backend/cuda/device.h"
#include "base/files.h"

namespace rtx::backend::cuda {

// Where the build put it; tests that need it are skipped where it is not.
inline std::string fake_folder() {
  const char* build = std::getenv("RTX_BUILD_DIR");
  if (build) return std::string(build) + "/fake_cuda";
  return "build/fake_cuda";
}
inline DriverFiles fake_files() { return {fake_folder() + "/libcuda.so.1", fake_folder() + "/libnvidia-ml.so.1", "/nonexistent/version"}; }

inline Result<std::shared_ptr<const Driver>> open_fake(const std::string& settings = {}, const DriverFiles& files = fake_files()) {
  setenv("RTX_FAKE_CUDA", settings.c_str(), 1);
  return Driver::open(files);
}

// Somebody else's calls to the same driver, by the names it exports.
template <class F>
F* fake_function(const char* name) {
  void* const library = dlopen(fake_files().library.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<F*>(dlsym(library, name)) : nullptr;
}
// How often `what` was called since cuInit, or "launches", "modules", "allocations", "contexts" as they stand.
inline int64_t fake_count(const char* what) { return fake_function<int64_t(const char*)>("fake_cuda_count")(what); }

class FakeCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!file_exists(fake_files().library)) GTEST_SKIP() << "the fake driver is not built: ninja rtx_fake_cuda";
  }
  // A device of the fake driver, the first.
  std::shared_ptr<Device> device(const std::string& settings = {}, int ordinal = 0) {
    auto opened = open_fake(settings);
    EXPECT_TRUE(opened.ok()) << opened.error().text();
    driver = *opened;
    auto made = make_device(driver, ordinal);
    EXPECT_TRUE(made.ok()) << made.error().text();
    return *made;
  }
  std::shared_ptr<const Driver> driver;
};

}  // namespace rtx::backend::cuda

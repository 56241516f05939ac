// The driver's table without a GPU: what each unusable library says, and that our types are those of cuda.h.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "backend/cuda/driver_table.h"
#include "base/files.h"

#if __has_include(</usr/local/cuda/include/cuda.h>)
#include </usr/local/cuda/include/cuda.h>
static_assert(sizeof(rtx::backend::cuda::CuLaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(rtx::backend::cuda::CuLaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(rtx::backend::cuda::CuLaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(rtx::backend::cuda::CuAddress) == sizeof(CUdeviceptr) && sizeof(rtx::backend::cuda::CuDevice) == sizeof(CUdevice));
static_assert(int(rtx::backend::cuda::cu_multiprocessors) == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(int(rtx::backend::cuda::cu_max_threads_per_group) == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(int(rtx::backend::cuda::cu_clock_khz) == CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
static_assert(int(rtx::backend::cuda::cu_memory_clock_khz) == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
static_assert(int(rtx::backend::cuda::cu_memory_bus_bits) == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
static_assert(int(rtx::backend::cuda::cu_l2_bytes) == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
static_assert(int(rtx::backend::cuda::cu_capability_major) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(int(rtx::backend::cuda::cu_capability_minor) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(int(rtx::backend::cuda::cu_shared_bytes_per_group) == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(int(rtx::backend::cuda::cu_memory_pools) == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
static_assert(int(rtx::backend::cuda::cu_function_dynamic_shared_bytes) == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(int(rtx::backend::cuda::cu_stub_library) == CUDA_ERROR_STUB_LIBRARY && int(rtx::backend::cuda::cu_no_device) == CUDA_ERROR_NO_DEVICE);
#endif

namespace rtx::backend::cuda {
namespace {

TEST(Driver, a_missing_driver_is_one_line_of_kind_device) {
  const auto driver = Driver::open("/nonexistent/libcuda.so.1");
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.error().kind, ErrorKind::device);
  EXPECT_NE(driver.error().why.find("no NVIDIA driver"), std::string::npos);
  EXPECT_EQ(driver.error().why.find('\n'), std::string::npos);
}

TEST(Driver, a_library_of_something_else_is_no_driver) {
  const auto driver = Driver::open("libm.so.6");
  ASSERT_FALSE(driver.ok());
  EXPECT_NE(driver.error().why.find("is no NVIDIA driver"), std::string::npos);
}

TEST(Driver, the_toolkits_library_for_linking_is_told_from_a_driver) {
  const std::string library = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (!file_exists(library)) GTEST_SKIP() << "no CUDA toolkit here";
  const auto driver = Driver::open(library);
  ASSERT_FALSE(driver.ok());
  EXPECT_NE(driver.error().why.find("for linking"), std::string::npos) << driver.error().why;
}

// A driver of a few lines: what cuInit says, and which CUDA version it claims.
Result<std::shared_ptr<const Driver>> open_fake(int init, int version) {
  const std::string base = ::testing::TempDir() + "fake_driver_" + std::to_string(init) + "_" + std::to_string(version);
  std::ofstream(base + ".c") << "int cuInit(unsigned f) { return " << init << "; }\n"
                             << "int cuDriverGetVersion(int* v) { *v = " << version << "; return 0; }\n"
                             << "static int any() { return 0; }\n"
                             << "static int count(int* n) { *n = 2; return 0; }\n"
                             << "int strcmp(const char*, const char*);\n"
                             << "int cuGetProcAddress_v2(const char* s, void** f, int v, unsigned long g, int* r) {\n"
                             << "  *f = strcmp(s, \"cuDeviceGetCount\") ? (void*)any : (void*)count; *r = 0; return 0; }\n";
  EXPECT_EQ(std::system(("cc -w -shared -fPIC -o " + base + ".so " + base + ".c").c_str()), 0);
  return Driver::open(base + ".so");
}

TEST(Driver, one_that_is_too_old_says_what_was_found_and_needed) {
  const auto driver = open_fake(0, 11080);
  ASSERT_FALSE(driver.ok());
  EXPECT_NE(driver.error().why.find("CUDA 11.8, needed is 12.0"), std::string::npos) << driver.error().why;
}

TEST(Driver, one_without_a_device_says_so) {
  const auto driver = open_fake(100, 13000);
  ASSERT_FALSE(driver.ok());
  EXPECT_NE(driver.error().why.find("no device"), std::string::npos) << driver.error().why;
}

TEST(Driver, a_working_one_gives_its_version_and_number_of_devices) {
  const auto driver = open_fake(0, 13000);
  ASSERT_TRUE(driver.ok()) << driver.error().text();
  EXPECT_EQ((*driver)->version(), 13000);
  EXPECT_EQ((*driver)->devices(), 2);
}

}  // namespace
}  // namespace rtx::backend::cuda

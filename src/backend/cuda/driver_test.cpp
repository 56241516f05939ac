// The driver's table without a GPU: what each unusable library says, and that our types are those of cuda.h.
#include <fstream>

#include "backend/cuda/fake_driver_testing.h"

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
static_assert(int(rtx::backend::cuda::cu_function_registers) == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(int(rtx::backend::cuda::cu_stream_non_blocking) == CU_STREAM_NON_BLOCKING && int(rtx::backend::cuda::cu_capture_thread) == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(int(rtx::backend::cuda::cu_capture_relaxed) == CU_STREAM_CAPTURE_MODE_RELAXED && int(rtx::backend::cuda::cu_capture_invalidated) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
static_assert(int(rtx::backend::cuda::cu_no_binary_for_gpu) == CUDA_ERROR_NO_BINARY_FOR_GPU && int(rtx::backend::cuda::cu_invalid_handle) == CUDA_ERROR_INVALID_HANDLE);
static_assert(int(rtx::backend::cuda::cu_launch_failed) == CUDA_ERROR_LAUNCH_FAILED && int(rtx::backend::cuda::cu_hardware_stack_error) == CUDA_ERROR_HARDWARE_STACK_ERROR);
static_assert(int(rtx::backend::cuda::cu_assert) == CUDA_ERROR_ASSERT && int(rtx::backend::cuda::cu_timeout) == CUDA_ERROR_LAUNCH_TIMEOUT);
static_assert(int(rtx::backend::cuda::cu_stub_library) == CUDA_ERROR_STUB_LIBRARY && int(rtx::backend::cuda::cu_no_device) == CUDA_ERROR_NO_DEVICE);
#endif

namespace rtx::backend::cuda {
namespace {

TEST(Driver, a_missing_driver_is_one_line_of_kind_device) {
  const auto driver = Driver::open({"/nonexistent/libcuda.so.1"});
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.error().kind, ErrorKind::device);
  EXPECT_NE(driver.error().why.find("no NVIDIA driver"), std::string::npos);
  EXPECT_EQ(driver.error().why.find('\n'), std::string::npos);
}

TEST(Driver, a_library_of_something_else_is_no_driver) {
  const auto driver = Driver::open({"libm.so.6"});
  ASSERT_FALSE(driver.ok());
  EXPECT_NE(driver.error().why.find("is no NVIDIA driver"), std::string::npos);
}

TEST(Driver, the_toolkits_library_for_linking_is_told_from_a_driver) {
  const std::string library = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (!file_exists(library)) GTEST_SKIP() << "no CUDA toolkit here";
  const auto driver = Driver::open({library});
  ASSERT_FALSE(driver.ok());
  EXPECT_NE(driver.error().why.find("for linking"), std::string::npos) << driver.error().why;
}

class DriverFake : public FakeCuda {};

TEST_F(DriverFake, one_that_is_too_old_says_what_was_found_and_needed) {
  const auto driver = open_fake("version=11080");
  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.error().exit_code(), 4);
  EXPECT_NE(driver.error().why.find("CUDA 11.8, needed is 12.0"), std::string::npos) << driver.error().why;
}

TEST_F(DriverFake, one_that_fails_to_start_is_one_line_with_its_code) {
  struct Case { const char* settings; const char* words; };
  for (const auto& [settings, words] : {Case{"init=34", "for linking, not a driver"}, {"init=100", "no device"}, {"devices=0", "no device"}, {"init=803", "803"},
                                        {"missing=cuLaunchKernelEx", "no cuLaunchKernelEx"}, {"init=34,version=0", "for linking"}}) {
    const auto driver = open_fake(settings);
    ASSERT_FALSE(driver.ok()) << settings;
    EXPECT_EQ(driver.error().exit_code(), 4) << settings;
    EXPECT_NE(driver.error().why.find(words), std::string::npos) << settings << ": " << driver.error().why;
    EXPECT_EQ(driver.error().why.find('\n'), std::string::npos) << settings;
  }
}

TEST_F(DriverFake, a_working_one_gives_its_version_and_number_of_devices) {
  const auto driver = open_fake("devices=2");
  ASSERT_TRUE(driver.ok()) << driver.error().text();
  EXPECT_EQ((*driver)->version(), 13000);
  EXPECT_EQ((*driver)->devices(), 2);
}

TEST_F(DriverFake, one_that_is_newer_than_this_build_knows_is_as_good) {
  const auto driver = open_fake("version=14020");
  ASSERT_TRUE(driver.ok()) << driver.error().text();
  EXPECT_EQ((*driver)->name(), "CUDA 14.2 (driver 999.10)");
}

// Two drivers that support the same CUDA may compile and schedule differently: a key must tell them apart.
TEST_F(DriverFake, its_name_tells_drivers_apart_by_the_kernel_modules_file_or_by_nvml) {
  EXPECT_EQ((*open_fake("release=580.82.07"))->name(), "CUDA 13.0 (driver 580.82.07)");
  auto files = fake_files();
  files.version_file = ::testing::TempDir() + "nvidia_version";
  std::ofstream(files.version_file) << "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build\nGCC version: 13.2.0\n";
  EXPECT_EQ((*open_fake("release=580.82.07", files))->name(), "CUDA 13.0 (driver 580.159.03)");
  std::ofstream(files.version_file) << "nonsense";
  files.management = "/nonexistent/libnvidia-ml.so.1";
  EXPECT_EQ((*open_fake("", files))->name(), "CUDA 13.0");
}

TEST_F(DriverFake, a_device_is_identified_without_a_context) {
  const auto driver = open_fake("devices=2,name=NVIDIA H200 MIG 3g.71gb,sms=60,memory_mib=71680");
  ASSERT_TRUE(driver.ok());
  const auto caps = identify(**driver, 1);
  ASSERT_TRUE(caps.ok()) << caps.error().text();
  EXPECT_EQ(caps->device, "NVIDIA H200, 60 SMs, 70 GiB, MIG 3g.71gb");
  EXPECT_EQ(caps->arch, "sm_90a");
  EXPECT_EQ(caps->driver, "CUDA 13.0 (driver 999.10)");
  EXPECT_EQ(fake_count("cuDevicePrimaryCtxRetain"), 0);
}

TEST_F(DriverFake, a_device_that_is_not_there_is_told_which_ones_are) {
  const auto driver = open_fake("devices=2");
  ASSERT_TRUE(driver.ok());
  for (const int ordinal : {2, -1, 1000}) {
    const auto device = make_device(*driver, ordinal);
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.error().exit_code(), 4);
    EXPECT_NE(device.error().why.find("devices 0 to 1"), std::string::npos) << device.error().why;
  }
}

TEST_F(DriverFake, a_gpu_before_ampere_is_no_device_of_ours) {
  const auto driver = open_fake("name=Tesla T4,major=7,minor=5");
  ASSERT_TRUE(driver.ok());
  const auto caps = identify(**driver, 0);
  ASSERT_FALSE(caps.ok());
  EXPECT_EQ(caps.error().exit_code(), 4);
  EXPECT_NE(caps.error().why.find("7.5"), std::string::npos);
}

TEST_F(DriverFake, nvml_tells_clocks_power_temperature_and_why_it_is_slow) {
  const auto device = this->device("core_mhz=1400,watts=690,celsius=92,slowed=97");  // idle, heat by software and by hardware
  const auto conditions = device->conditions();
  ASSERT_TRUE(conditions.ok()) << conditions.error().text();
  EXPECT_EQ(conditions->core_mhz, 1400);
  EXPECT_EQ(conditions->memory_mhz, 3201);
  EXPECT_EQ(conditions->watts, 690);
  EXPECT_EQ(conditions->watts_allowed, 0);  // this library does not tell
  EXPECT_EQ(conditions->celsius, 92);
  EXPECT_FALSE(conditions->divided);
  EXPECT_EQ(conditions->slowed_by, (std::vector<std::string>{"heat", "heat, by hardware"}));
  EXPECT_EQ(reasons_of_slowing(0x3), std::vector<std::string>{});
  EXPECT_EQ(reasons_of_slowing(0x84), (std::vector<std::string>{"power", "the power supply"}));
}

TEST_F(DriverFake, without_nvml_a_device_works_and_says_what_it_does_not_know) {
  auto files = fake_files();
  files.management = "/nonexistent/libnvidia-ml.so.1";
  for (const auto& [settings, with] : {std::pair{"", files}, {"nvml=9", fake_files()}}) {
    const auto driver = open_fake(settings, with);
    ASSERT_TRUE(driver.ok()) << driver.error().text();
    const auto device = make_device(*driver, 0);
    ASSERT_TRUE(device.ok());
    const auto conditions = (*device)->conditions();
    ASSERT_FALSE(conditions.ok());
    EXPECT_EQ(conditions.error().kind, ErrorKind::device);
    EXPECT_EQ(conditions.error().why.find('\n'), std::string::npos);
    EXPECT_EQ((*driver)->name(), "CUDA 13.0");
  }
}

TEST_F(DriverFake, a_divided_gpu_says_so) {
  setenv("RTX_FAKE_CUDA", "mig=1", 1);
  const auto nvml = Nvml::open(fake_files().management);
  ASSERT_TRUE(nvml.ok());
  EXPECT_TRUE((*nvml)->conditions("0000:01:00.0")->divided);
  EXPECT_FALSE((*nvml)->conditions("0000:77:00.0").ok());
}

}  // namespace
}  // namespace rtx::backend::cuda

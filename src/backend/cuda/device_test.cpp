// The device's code without a GPU, on the fake driver of tests/fake_cuda.
#include <thread>

#include "backend/cuda/fake_driver_testing.h"

namespace rtx::backend::cuda {
namespace {

struct Kernel {
  std::unique_ptr<Module> module;
  Function function;
};
Kernel kernel(Device& device, const std::string& name) {
  Kernel out;
  auto module = device.load(fake::fake_cubin({name}), name);
  EXPECT_TRUE(module.ok()) << module.error().text();
  out.module = *std::move(module);
  auto function = device.function(*out.module, name);
  EXPECT_TRUE(function.ok()) << function.error().text();
  out.function = *function;
  return out;
}

Status launch(Device& device, const Kernel& kernel, int64_t groups, std::vector<void*> arguments, Stream stream = nullptr) {
  return device.launch(kernel.function, {groups, 1, 1}, {32, 1, 1}, 0, arguments.data(), static_cast<int>(arguments.size()), stream);
}


class CudaDeviceFake : public FakeCuda {};

TEST_F(CudaDeviceFake, launches_copies_and_fills_follow_each_other_on_the_callers_stream) {
  const auto device = this->device();
  ASSERT_TRUE(device->make_ready().ok());
  auto& call = driver->call();
  CuStream stream = nullptr;
  ASSERT_EQ(call.create_stream(&stream, cu_stream_non_blocking), cu_success);
  const auto affine = kernel(*device, "affine");
  std::vector<float> x = {1, 2, 3, 4}, y(4);
  void* a = *device->allocate(16);
  void* b = *device->allocate(16);
  // What goes to another stream than the one that is named is done too late here, or never.
  ASSERT_TRUE(device->copy_in(a, x.data(), 16, stream).ok());
  ASSERT_TRUE(launch(*device, affine, 4, {a, b}, stream).ok());
  ASSERT_TRUE(device->copy_within(a, b, 16, stream).ok());
  ASSERT_TRUE(launch(*device, affine, 4, {a, b}, stream).ok());
  ASSERT_TRUE(device->copy_out(y.data(), b, 16, stream).ok());
  EXPECT_EQ(y, (std::vector<float>{13, 22, 31, 40}));
  ASSERT_TRUE(device->fill(b, std::byte{0}, 16, stream).ok());
  ASSERT_TRUE(device->copy_out(y.data(), b, 16, stream).ok());
  EXPECT_EQ(y, std::vector<float>(4, 0));
  device->release(a), device->release(b);
  call.destroy_stream(stream);
}

TEST_F(CudaDeviceFake, nobodys_context_is_made_before_it_is_needed) {
  const int64_t before = fake_count("contexts");
  const auto device = this->device();
  EXPECT_EQ(fake_count("contexts"), before);
  ASSERT_TRUE(device->make_ready().ok());
  EXPECT_EQ(fake_count("contexts"), before + 1);
}

TEST_F(CudaDeviceFake, the_callers_context_stays_current_after_every_call) {
  const auto device = this->device("devices=2");
  ASSERT_TRUE(device->make_ready().ok());
  // Of another device, so that it cannot be the one that this device works in.
  CuContext callers = nullptr, now = nullptr;
  ASSERT_EQ((fake_function<CuResult(CuContext*, unsigned, CuDevice)>("cuCtxCreate_v2")(&callers, 0, 1)), cu_success);
  auto& call = driver->call();
  const auto still = [&](const char* after) {
    EXPECT_EQ(call.current_context(&now), cu_success);
    EXPECT_EQ(now, callers) << after;
  };
  {
    const auto affine = kernel(*device, "affine");
    still("load and function");
    void* a = *device->allocate(64);
    still("allocate");
    float x = 1;
    EXPECT_TRUE(device->copy_in(a, &x, 4, nullptr).ok());
    EXPECT_TRUE(launch(*device, affine, 1, {a, a}).ok());
    EXPECT_TRUE(device->time(nullptr, [&] { return launch(*device, affine, 1, {a, a}); }).ok());
    EXPECT_TRUE(device->synchronize(nullptr).ok());
    EXPECT_TRUE(device->flush_caches(nullptr).ok());
    EXPECT_TRUE(device->own_stream().ok());
    EXPECT_TRUE(device->copy_out(&x, a, 4, nullptr).ok());
    EXPECT_EQ(x, 13);
    still("work");
    auto recording = device->capture([&](Stream stream) { return launch(*device, affine, 1, {a, a}, stream); });
    ASSERT_TRUE(recording.ok()) << recording.error().text();
    EXPECT_TRUE(device->replay(**recording, nullptr).ok());
    recording->reset();
    device->release(a);
    still("a recording");
  }
  still("unload");
  fake_function<CuResult(CuContext)>("cuCtxDestroy_v2")(callers);
}

TEST_F(CudaDeviceFake, a_thread_without_a_context_keeps_the_devices) {
  const auto device = this->device();
  std::thread([&] {
    auto& call = driver->call();
    CuContext now = nullptr;
    (void)call.current_context(&now);
    EXPECT_EQ(now, nullptr);
    EXPECT_TRUE(device->make_ready().ok());
    (void)call.current_context(&now);
    EXPECT_NE(now, nullptr);
  }).join();
}

// Another thread still has the primary context of a device that is gone: the next device does not mistake it for the caller's.
TEST_F(CudaDeviceFake, a_context_that_was_released_is_nobodys) {
  auto first = this->device();
  ASSERT_TRUE(first->make_ready().ok());
  auto second = first;  // of a thread that outlives the first
  std::thread([&] {
    ASSERT_TRUE(first->make_ready().ok());
    std::thread([&] { first.reset(), second.reset(); }).join();
    const auto next = this->device();
    ASSERT_TRUE(next->make_ready().ok());
    const auto memory = next->allocate(64);
    ASSERT_TRUE(memory.ok()) << memory.error().text();
    next->release(*memory);
  }).join();
}

TEST_F(CudaDeviceFake, a_context_of_the_callers_for_this_device_is_the_one_that_is_used) {
  CuContext callers = nullptr;
  std::thread([&] {
    const auto device = this->device();
    ASSERT_EQ((fake_function<CuResult(CuContext*, unsigned, CuDevice)>("cuCtxCreate_v2")(&callers, 0, 0)), cu_success);
    auto& call = driver->call();
    CuStream stream = nullptr;
    ASSERT_EQ(call.create_stream(&stream, cu_stream_blocking), cu_success);
    const auto count = kernel(*device, "count");
    void* a = *device->allocate(4);
    ASSERT_TRUE(device->fill(a, std::byte{0}, 4, stream).ok());
    EXPECT_TRUE(launch(*device, count, 1, {a}, stream).ok());  // a stream of another context would be refused
    int n = 0;
    EXPECT_TRUE(device->copy_out(&n, a, 4, stream).ok());
    EXPECT_EQ(n, 1);
    EXPECT_EQ(fake_count("cuDevicePrimaryCtxRetain"), 0);
    device->release(a);
  }).join();
  fake_function<CuResult(CuContext)>("cuCtxDestroy_v2")(callers);
}

TEST_F(CudaDeviceFake, a_stream_of_another_context_is_refused_with_the_way_out) {
  const auto device = this->device("devices=2");
  ASSERT_TRUE(device->make_ready().ok());
  const auto count = kernel(*device, "count");
  void* a = *device->allocate(4);
  CuContext others = nullptr;
  ASSERT_EQ((fake_function<CuResult(CuContext*, unsigned, CuDevice)>("cuCtxCreate_v2")(&others, 0, 1)), cu_success);
  CuStream stream = nullptr;
  ASSERT_EQ(driver->call().create_stream(&stream, 0), cu_success);
  const auto launched = launch(*device, count, 1, {a}, stream);
  ASSERT_FALSE(launched.ok());
  EXPECT_EQ(launched.error().what, "cannot launch count");
  EXPECT_NE(launched.error().fix.find("stream"), std::string::npos);
  device->release(a);
  fake_function<CuResult(CuContext)>("cuCtxDestroy_v2")(others);
}

TEST_F(CudaDeviceFake, exhausted_memory_says_how_much_was_asked_for_and_how_much_there_is) {
  const auto device = this->device("memory_mib=64");
  const auto got = device->allocate(int64_t{100} << 20);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().exit_code(), 4);
  EXPECT_EQ(got.error().what, "cannot allocate 104857600 bytes on the device");
  EXPECT_NE(got.error().why.find("0.1 GiB of 0.1 GiB are free"), std::string::npos) << got.error().why;
  EXPECT_EQ(got.error().text().find("\n\n"), std::string::npos);
  auto little = device->allocate(1 << 20);
  EXPECT_TRUE(little.ok());
  device->release(*little);
}

TEST_F(CudaDeviceFake, a_launch_that_the_driver_refuses_names_the_kernel) {
  const auto device = this->device("launch=701");
  const auto count = kernel(*device, "count");
  void* a = *device->allocate(4);
  const auto launched = launch(*device, count, 1, {a});
  ASSERT_FALSE(launched.ok());
  EXPECT_EQ(launched.error().exit_code(), 4);
  EXPECT_EQ(launched.error().what, "cannot launch count");
  EXPECT_NE(launched.error().why.find("OUT_OF_RESOURCES"), std::string::npos);
  device->release(a);
}

// A kernel's failure is known when somebody waits, and takes the context with it: each has one of its own here.
TEST_F(CudaDeviceFake, a_kernel_that_fails_while_it_runs_is_named_by_who_waits_for_it) {
  const auto device = this->device();
  const auto count = kernel(*device, "count"), fault = kernel(*device, "fault");
  void* a = *device->allocate(4);
  ASSERT_TRUE(device->fill(a, std::byte{0}, 4, nullptr).ok());
  ASSERT_TRUE(launch(*device, count, 1, {a}).ok());
  ASSERT_TRUE(device->synchronize(nullptr).ok());  // count is known to have ended well
  ASSERT_TRUE(launch(*device, fault, 1, {a}).ok());
  const auto waited = device->synchronize(nullptr);
  ASSERT_FALSE(waited.ok());
  EXPECT_EQ(waited.error().kind, ErrorKind::device);
  EXPECT_EQ(waited.error().what, "kernel fault failed on the device");
  EXPECT_NE(waited.error().why.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << waited.error().why;
  EXPECT_NE(waited.error().why.find("nothing more"), std::string::npos);
  // Everything that comes later fails, and still says whose fault it is.
  const auto later = launch(*device, count, 1, {a});
  ASSERT_FALSE(later.ok());
  EXPECT_NE(later.error().what.find("fault"), std::string::npos) << later.error().what;
  EXPECT_FALSE(device->allocate(4).ok());
}

TEST_F(CudaDeviceFake, where_several_kernels_may_have_failed_all_are_named) {
  const auto device = this->device();
  const auto affine = kernel(*device, "affine"), count = kernel(*device, "count"), fault = kernel(*device, "fault");
  void* a = *device->allocate(8);
  ASSERT_TRUE(device->fill(a, std::byte{0}, 8, nullptr).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(launch(*device, count, 1, {a}).ok());
  ASSERT_TRUE(launch(*device, fault, 1, {a}).ok());
  ASSERT_TRUE(launch(*device, affine, 1, {a, a}).ok());
  int n = 0;
  const auto copied = device->copy_out(&n, a, 4, nullptr);
  ASSERT_FALSE(copied.ok());
  EXPECT_EQ(copied.error().what, "one of the kernels count, fault, affine failed on the device");
  EXPECT_NE(copied.error().fix.find("CUDA_LAUNCH_BLOCKING=1"), std::string::npos);
}

TEST_F(CudaDeviceFake, a_recording_runs_as_often_as_it_is_replayed_and_not_when_it_is_made) {
  const auto device = this->device();
  const auto count = kernel(*device, "count");
  void* a = *device->allocate(4);
  ASSERT_TRUE(device->fill(a, std::byte{0}, 4, nullptr).ok());
  auto recording = device->capture([&](Stream stream) -> Status {
    for (int i = 0; i < 5; ++i) RTX_CHECK(launch(*device, count, 1, {a}, stream));
    return success();
  });
  ASSERT_TRUE(recording.ok()) << recording.error().text();
  int n = -1;
  ASSERT_TRUE(device->copy_out(&n, a, 4, nullptr).ok());
  EXPECT_EQ(n, 0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(device->replay(**recording, nullptr).ok());
  ASSERT_TRUE(device->copy_out(&n, a, 4, nullptr).ok());
  EXPECT_EQ(n, 15);
  EXPECT_EQ(fake_count("cuGraphLaunch"), 3);
  device->release(a);
}

TEST_F(CudaDeviceFake, a_recording_of_work_that_waits_is_refused_and_leaves_the_device_well) {
  const auto device = this->device();
  const auto count = kernel(*device, "count");
  void* a = *device->allocate(4);
  const auto waits = device->capture([&](Stream stream) -> Status {
    RTX_CHECK(launch(*device, count, 1, {a}, stream));
    return device->synchronize(stream);
  });
  ASSERT_FALSE(waits.ok());
  EXPECT_NE(waits.error().why.find("CAPTURE"), std::string::npos) << waits.error().why;
  const auto fails = device->capture([&](Stream) -> Status { return error_of(ErrorKind::device, "the work failed"); });
  ASSERT_FALSE(fails.ok());
  EXPECT_EQ(fails.error().what, "the work failed");
  ASSERT_TRUE(device->fill(a, std::byte{0}, 4, nullptr).ok());
  ASSERT_TRUE(launch(*device, count, 1, {a}).ok());
  EXPECT_TRUE(device->synchronize(nullptr).ok());
  device->release(a);
}

TEST_F(CudaDeviceFake, a_kernel_that_fails_in_a_replay_is_named) {
  const auto device = this->device();
  const auto count = kernel(*device, "count"), fault = kernel(*device, "fault");
  void* a = *device->allocate(4);
  auto recording = device->capture([&](Stream stream) -> Status {
    RTX_CHECK(launch(*device, count, 1, {a}, stream));
    return launch(*device, fault, 1, {a}, stream);
  });
  ASSERT_TRUE(recording.ok());
  ASSERT_TRUE(device->replay(**recording, nullptr).ok());
  const auto waited = device->synchronize(nullptr);
  ASSERT_FALSE(waited.ok());
  EXPECT_EQ(waited.error().what, "kernel count, fault failed on the device");
}

TEST_F(CudaDeviceFake, allocating_and_loading_do_not_break_somebodys_recording) {
  const auto device = this->device();
  ASSERT_TRUE(device->make_ready().ok());
  auto& call = driver->call();
  CuStream stream = nullptr;
  ASSERT_EQ(call.create_stream(&stream, cu_stream_non_blocking), cu_success);
  EXPECT_FALSE(device->is_capturing(stream));
  ASSERT_EQ(call.begin_capture(stream, cu_capture_global), cu_success);
  EXPECT_TRUE(device->is_capturing(stream));
  void* a = nullptr;
  CuGraph graph = nullptr;
  {
    const auto count = kernel(*device, "count");
    a = *device->allocate(4);
    EXPECT_TRUE(launch(*device, count, 1, {a}, stream).ok());
    device->release(*device->allocate(4));
    EXPECT_EQ(call.end_capture(stream, &graph), cu_success);
  }
  EXPECT_FALSE(device->is_capturing(stream));
  call.destroy_graph(graph);
  call.destroy_stream(stream);
  device->release(a);
}

TEST_F(CudaDeviceFake, an_image_for_another_arch_is_refused_with_this_devices) {
  const auto device = this->device();
  const auto module = device->load(fake::fake_cubin({"count"}, 75), "count");
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.error().what, "cannot load kernel count");
  EXPECT_NE(module.error().why.find("sm_90a"), std::string::npos);
  EXPECT_FALSE(device->load(std::vector<std::byte>(200), "zeros").ok());
  EXPECT_FALSE(device->load(std::vector<std::byte>(3), "short").ok());
}

TEST_F(CudaDeviceFake, an_entry_that_is_not_there_is_one_line) {
  const auto device = this->device();
  auto module = device->load(fake::fake_cubin({"count"}), "count");
  ASSERT_TRUE(module.ok());
  const auto function = device->function(**module, "nothing");
  ASSERT_FALSE(function.ok());
  EXPECT_EQ(function.error().what, "cannot load kernel nothing");
}

TEST_F(CudaDeviceFake, everything_taken_is_given_back) {
  {
    const auto device = this->device();
    const auto count = kernel(*device, "count");
    ASSERT_TRUE(device->flush_caches(nullptr).ok());
    ASSERT_TRUE(device->own_stream().ok());
    auto recording = device->capture([](Stream) { return success(); });
    ASSERT_TRUE(recording.ok());
    EXPECT_EQ(fake_count("modules"), 1);
  }
  EXPECT_EQ(fake_count("modules"), 0);
  EXPECT_EQ(fake_count("cuStreamCreate"), fake_count("cuStreamDestroy"));
  EXPECT_EQ(fake_count("cuGraphInstantiateWithFlags"), fake_count("cuGraphExecDestroy"));
  EXPECT_EQ(fake_count("cuDevicePrimaryCtxRetain"), fake_count("cuDevicePrimaryCtxRelease"));
}

}  // namespace
}  // namespace rtx::backend::cuda

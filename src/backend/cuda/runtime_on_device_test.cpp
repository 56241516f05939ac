// Programs on a CUDA device: on the fake driver everywhere, on a GPU where one is. Streams, captures, states, and bundles that are not
// for this machine.
#include <chrono>
#include <cstring>
#include <optional>

#include "backend/conformance/conformance.h"
#include "backend/cuda/compile_testing.h"
#include "backend/cuda/dialect.h"
#include "backend/cuda/fake_driver_testing.h"
#include "bundle/sample_testing.h"
#include "runtime/program.h"

namespace rtx::backend::cuda {
namespace {

using bundle::SlotKind;
using runtime::Binding;
constexpr int64_t kElements = 64;
constexpr int64_t kBytes = kElements * 4;

class CudaRuntime : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const bool gpu = GetParam();
    if (!gpu && !file_exists(fake_files().library)) GTEST_SKIP() << "the fake driver is not built: ninja rtx_fake_cuda";
    auto opened = gpu ? Driver::open() : open_fake();
    if (!opened.ok()) GTEST_SKIP() << opened.error().text();
    driver = *opened;
    auto made = make_device(driver, 0);
    ASSERT_TRUE(made.ok()) << made.error().text();
    device = *made;
    if (gpu) {
      conformance::Bench bench({[] { return make_compiler(testing::options_here()); }, [this] { return device; }, make_dialect});
      auto binary = bench.compile(bench.text());
      ASSERT_TRUE(binary.ok()) << binary.error().text();
      image = binary->bytes;
    } else {
      image = fake::fake_cubin({"conformance_affine", "conformance_count"});
    }
  }
  void TearDown() override {
    for (void* memory : taken) device->release(memory);
  }
  void* put(const std::vector<float>& values) {
    auto memory = device->allocate(static_cast<int64_t>(values.size() * 4));
    EXPECT_TRUE(memory.ok());
    taken.push_back(*memory);
    EXPECT_TRUE(device->copy_in(*memory, values.data(), static_cast<int64_t>(values.size() * 4), nullptr).ok());
    EXPECT_TRUE(device->synchronize(nullptr).ok());
    return *memory;
  }
  std::vector<float> get(const void* from, Stream stream = nullptr) {
    std::vector<float> out(kElements);
    EXPECT_TRUE(device->copy_out(out.data(), from, kBytes, stream).ok());
    return out;
  }
  static runtime::TensorView view(void* data) { return {data, ir::DType::f32, {kElements}, {}}; }
  static std::vector<float> all(float value) { return std::vector<float>(kElements, value); }
  CuStream new_stream(unsigned flags = cu_stream_non_blocking) {
    EXPECT_TRUE(device->make_ready().ok());
    CuStream stream = nullptr;
    EXPECT_EQ(driver->call().create_stream(&stream, flags), cu_success);
    return stream;
  }

  // y = 3 (3 x + 1) + 1
  bundle::Plan twice() {
    bundle::Plan p;
    p.model_name = "twice.onnx";
    const Caps& caps = device->caps();
    p.identity = {caps.target, caps.device, caps.arch, caps.driver, bundle::kRuntimeAbi, "", ""};
    p.inputs = {{"x", ir::DType::f32, {kElements}, {}, 0}};
    p.outputs = {{"y", ir::DType::f32, {kElements}, {}, 0}};
    p.kernels.resize(1);
    p.kernels[0].name = "affine";
    p.kernels[0].binary = image;
    p.steps = {{0, "conformance_affine", {kElements, 1, 1}, {}, 0, {{SlotKind::input, 0, 0}, {SlotKind::arena, 0, 0}}, "first"},
               {0, "conformance_affine", {kElements, 1, 1}, {}, 0, {{SlotKind::arena, 0, 0}, {SlotKind::output, 0, 0}}, "second"}};
    p.arena_bytes = kBytes;
    return p;
  }
  // s = 3 s + 1 from run to run
  bundle::Plan counting() {
    bundle::Plan p = twice();
    p.inputs = {{"s", ir::DType::f32, {kElements}, {}, 0}};
    p.outputs = {{"t", ir::DType::f32, {kElements}, {}, 0}};
    p.states = {{p.inputs[0], 0, 0, -1}};
    p.steps = {{0, "conformance_affine", {kElements, 1, 1}, {}, 0, {{SlotKind::state, 0, 0}, {SlotKind::state, 0, 0}}, "only"}};
    p.arena_bytes = 0;
    return p;
  }
  std::unique_ptr<runtime::Execution> execution(bundle::Plan plan) {
    runtime::LoadOptions options;
    options.device = device;
    auto program = runtime::Program::from_plan(std::move(plan), options);
    EXPECT_TRUE(program.ok()) << program.error().text();
    auto made = (*program)->create_execution();
    EXPECT_TRUE(made.ok()) << made.error().text();
    return *std::move(made);
  }

  std::shared_ptr<const Driver> driver;
  std::shared_ptr<Device> device;
  std::vector<std::byte> image;
  std::vector<void*> taken;
};

INSTANTIATE_TEST_SUITE_P(On, CudaRuntime, ::testing::Values(false, true), [](const auto& info) { return std::string(info.param ? "Gpu" : "FakeDriver"); });

TEST_P(CudaRuntime, a_run_is_on_the_callers_stream_from_its_first_copy_to_its_last) {
  const auto run = execution(twice());
  const CuStream stream = new_stream();
  void* x = put(all(2));
  void* y = put(all(0));
  ASSERT_TRUE(run->run({{"x", view(x)}}, {{"y", view(y)}}, stream).ok());
  EXPECT_EQ(get(y, stream), all(22));
  driver->call().destroy_stream(stream);
}

TEST_P(CudaRuntime, states_are_set_kept_and_copied_on_the_callers_stream) {
  const auto run = execution(counting());
  const CuStream stream = new_stream();
  void* s = put(all(5));
  void* t = put(all(0));
  ASSERT_TRUE(run->run({}, {}, stream).ok());  // 0 -> 1
  ASSERT_TRUE(run->run({}, {{"t", view(t)}}, stream).ok());
  EXPECT_EQ(get(t, stream), all(4));
  ASSERT_TRUE(run->run({{"s", view(s)}}, {{"t", view(t)}}, stream).ok());
  EXPECT_EQ(get(t, stream), all(16));
  if (!GetParam()) {
    EXPECT_EQ(fake_count("cuMemcpyDtoHAsync"), 2);  // the two get()s: nothing goes through the host
  }
  driver->call().destroy_stream(stream);
}

TEST_P(CudaRuntime, a_timed_run_has_the_devices_time_of_every_step) {
  const auto run = execution(twice());
  void* x = put(all(2));
  std::vector<runtime::StepTime> times;
  ASSERT_TRUE(run->run_timed({{"x", view(x)}}, &times).ok());
  ASSERT_EQ(times.size(), 2u);
  for (const auto& time : times) EXPECT_GT(time.ms, 0) << time.region;
  EXPECT_EQ(get(run->output("y")->data), all(22));
  if (!GetParam()) {
    EXPECT_EQ(fake_count("cuEventElapsedTime"), 2);
  }
}

// Pain P24: somebody captures his stream and runs a program in it that has never run before.
TEST_P(CudaRuntime, p24_a_run_inside_the_callers_capture_becomes_part_of_his_graph) {
  auto& call = driver->call();
  for (const unsigned flags : {cu_stream_non_blocking, cu_stream_blocking}) {
    const CuStream stream = new_stream(flags);
    void* x = put(all(2));
    void* y = put(all(0));
    ASSERT_EQ(call.begin_capture(stream, cu_capture_global), cu_success);
    {
      const auto run = execution(twice());  // loads, allocates and prepares meanwhile
      const auto ran = run->run({{"x", view(x)}}, {{"y", view(y)}}, stream);
      EXPECT_TRUE(ran.ok()) << ran.error().text();
      int status = 0;
      EXPECT_EQ(call.is_capturing(stream, &status), cu_success);
      EXPECT_EQ(status, 1) << "the capture is broken";
      CuGraph graph = nullptr;
      ASSERT_EQ(call.end_capture(stream, &graph), cu_success);
      CuGraphExec ready = nullptr;
      ASSERT_EQ(call.instantiate(&ready, graph, 0), cu_success);
      EXPECT_EQ(get(y, stream), all(0)) << "the run was not captured but done";
      ASSERT_EQ(call.launch_graph(ready, stream), cu_success);
      EXPECT_EQ(get(y, stream), all(22));
      ASSERT_TRUE(device->fill(x, std::byte{0}, kBytes, stream).ok());
      ASSERT_EQ(call.launch_graph(ready, stream), cu_success);
      EXPECT_EQ(get(y, stream), all(4));
      call.destroy_graph(graph), call.destroy_graph_exec(ready);
    }
    call.destroy_stream(stream);
  }
}

TEST_P(CudaRuntime, p24_what_would_have_to_wait_is_refused_before_it_breaks_the_capture) {
  auto plan = twice();
  const std::vector<float> fixed = all(7);
  plan.specialized = {{{"n", ir::DType::f32, {kElements}, {}, 0}, std::vector<std::byte>(static_cast<size_t>(kBytes))}};
  std::memcpy(plan.specialized[0].bytes.data(), fixed.data(), static_cast<size_t>(kBytes));
  const auto run = execution(std::move(plan));
  auto& call = driver->call();
  const CuStream stream = new_stream();
  void* x = put(all(2));
  void* y = put(all(0));
  void* n = put(fixed);
  ASSERT_EQ(call.begin_capture(stream, cu_capture_global), cu_success);
  const auto refused = run->run({{"x", view(x)}, {"n", view(n)}}, {{"y", view(y)}}, stream);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::user);
  EXPECT_NE(refused.error().why.find("'n'"), std::string::npos) << refused.error().why;
  EXPECT_TRUE(run->run({{"x", view(x)}}, {{"y", view(y)}}, stream).ok());
  CuGraph graph = nullptr;
  EXPECT_EQ(call.end_capture(stream, &graph), cu_success) << "the capture is broken";
  call.destroy_graph(graph);
  call.destroy_stream(stream);
}

TEST_P(CudaRuntime, captured_runs_give_the_same_and_follow_tensors_that_move) {
  const auto run = execution(twice());
  run->capture_runs(true);
  void* x = put(all(2));
  void* y = put(all(0));
  void* z = put(all(0));
  const CuStream stream = new_stream();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run->run({{"x", view(x)}}, {{"y", view(y)}}, stream).ok());
  EXPECT_EQ(get(y, stream), all(22));
  if (!GetParam()) {
    EXPECT_EQ(fake_count("cuGraphInstantiateWithFlags"), 1);
  }
  if (!GetParam()) {
    EXPECT_EQ(fake_count("cuGraphLaunch"), 3);
  }
  ASSERT_TRUE(run->run({{"x", view(y)}}, {{"y", view(z)}}, stream).ok());
  EXPECT_EQ(get(z, stream), all(202));
  EXPECT_EQ(get(y, stream), all(22));
  run->capture_runs(false);
  ASSERT_TRUE(run->run({{"x", view(x)}}, {{"y", view(z)}}, stream).ok());
  EXPECT_EQ(get(z, stream), all(22));
  driver->call().destroy_stream(stream);
}

TEST_P(CudaRuntime, captured_runs_keep_states_going) {
  const auto run = execution(counting());
  run->capture_runs(true);
  void* s = put(all(5));
  void* t = put(all(0));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run->run({}, {{"t", view(t)}}).ok());
  EXPECT_EQ(get(t), all(13));
  ASSERT_TRUE(run->run({{"s", view(s)}}, {{"t", view(t)}}).ok());
  EXPECT_EQ(get(t), all(16));
}

TEST_P(CudaRuntime, captured_runs_inside_the_callers_capture_are_part_of_his_graph) {
  const auto run = execution(twice());
  run->capture_runs(true);
  void* x = put(all(2));
  void* y = put(all(0));
  auto& call = driver->call();
  const CuStream stream = new_stream();
  ASSERT_EQ(call.begin_capture(stream, cu_capture_global), cu_success);
  EXPECT_TRUE(run->run({{"x", view(x)}}, {{"y", view(y)}}, stream).ok());
  CuGraph graph = nullptr;
  ASSERT_EQ(call.end_capture(stream, &graph), cu_success);
  CuGraphExec ready = nullptr;
  ASSERT_EQ(call.instantiate(&ready, graph, 0), cu_success);
  ASSERT_EQ(call.launch_graph(ready, stream), cu_success);
  EXPECT_EQ(get(y, stream), all(22));
  call.destroy_graph(graph), call.destroy_graph_exec(ready);
  call.destroy_stream(stream);
}

// Pain P47: a file for another GPU, or for a driver that is newer than the one here.
class CudaForeignBundle : public CudaRuntime {
 protected:
  // A bundle that says it is for `identity`, properly signed.
  Result<std::shared_ptr<const runtime::Program>> load(const std::function<void(bundle::Identity&)>& change) {
    auto plan = twice();
    change(plan.identity);
    runtime::LoadOptions options;
    options.device = device;
    options.key_directory = directory / "keys";
    if (!key) key = *bundle::new_key(options.key_directory, "test");
    bundle::WriteOptions write;
    write.key = &*key;
    const std::string path = directory / "foreign.rtxgc";
    EXPECT_TRUE(bundle::write(plan, path, write).ok());
    const auto start = std::chrono::steady_clock::now();
    auto program = runtime::Program::load(path, options);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return program;
  }
  bundle::sample::Directory directory;
  std::optional<bundle::KeyPair> key;
  double seconds = 0;
};

INSTANTIATE_TEST_SUITE_P(On, CudaForeignBundle, ::testing::Values(false, true), [](const auto& info) { return std::string(info.param ? "Gpu" : "FakeDriver"); });

TEST_P(CudaForeignBundle, p47_one_for_this_machine_loads) {
  auto program = load([](auto&) {});
  ASSERT_TRUE(program.ok()) << program.error().text();
  EXPECT_EQ((*program)->report().verdict, "exact");
}

TEST_P(CudaForeignBundle, p47_one_for_another_arch_is_refused_with_both_and_touches_no_context) {
  const int64_t before = GetParam() ? 0 : fake_count("contexts");
  auto program = load([](auto& identity) { identity.arch = "sm_75", identity.device = "Tesla T4, 40 SMs, 15 GiB"; });
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().exit_code(), 3);
  const std::string text = program.error().text();
  for (const char* word : {"sm_75", "Tesla T4", device->caps().arch.c_str(), device->caps().device.c_str()}) EXPECT_NE(text.find(word), std::string::npos) << text;
  if (!GetParam()) {
    EXPECT_EQ(fake_count("contexts"), before);
  }
  EXPECT_LT(seconds, 0.1);
}

TEST_P(CudaForeignBundle, p47_one_that_names_a_newer_driver_is_refused_and_one_with_an_older_runs) {
  auto newer = load([](auto& identity) { identity.driver = "CUDA 99.1 (driver 1999.10)"; });
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().exit_code(), 3);
  EXPECT_NE(newer.error().text().find("CUDA 99.1"), std::string::npos) << newer.error().text();
  EXPECT_NE(newer.error().text().find(device->caps().driver), std::string::npos) << newer.error().text();
  auto older = load([](auto& identity) { identity.driver = "CUDA 12.4 (driver 550.54)"; });
  ASSERT_TRUE(older.ok()) << older.error().text();
  EXPECT_EQ((*older)->report().verdict, "compatible");
}

// The header says this machine, the kernels are another's: the driver refuses them, and nobody takes what was in memory for a result.
TEST_P(CudaForeignBundle, p47_kernels_for_another_arch_behind_a_header_for_this_one_are_an_error) {
  if (GetParam()) {
    conformance::Bench bench({[] { return make_compiler(testing::options_here()); }, [this] { return device; }, make_dialect});
    auto compiler = make_compiler(testing::options_here());
    auto binary = compiler->compile({"foreign", bench.text(), device->caps().arch == "sm_80" ? "sm_90a" : "sm_80", {}, 60});
    ASSERT_TRUE(binary.ok()) << binary.error().text();
    image = binary->bytes;
  } else {
    image = fake::fake_cubin({"conformance_affine"}, 75);
  }
  auto program = load([](auto&) {});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().exit_code(), 4);
  EXPECT_NE(program.error().text().find("affine"), std::string::npos) << program.error().text();
}

}  // namespace
}  // namespace rtx::backend::cuda

#include <gtest/gtest.h>

#include <new>
#include <thread>

#include "runtime/fake_device_testing.h"

namespace {

// Allocations of this thread, to show that a run in the steady state makes none.
thread_local int64_t allocations_here = 0;

[[gnu::noinline]] void* counted(size_t bytes) {
  ++allocations_here;
  if (void* pointer = std::malloc(bytes ? bytes : 1)) return pointer;
  throw std::bad_alloc();
}

// Not inlined: GCC would take free() behind an inlined new for a mismatch.
[[gnu::noinline]] void given_back(void* pointer) noexcept { std::free(pointer); }

}  // namespace

void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
void operator delete(void* pointer) noexcept { given_back(pointer); }
void operator delete[](void* pointer) noexcept { given_back(pointer); }
void operator delete(void* pointer, size_t) noexcept { given_back(pointer); }
void operator delete[](void* pointer, size_t) noexcept { given_back(pointer); }

namespace rtx::runtime {

namespace {

using fake::FakeDevice;

struct Affine {
  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  std::shared_ptr<const Program> program;
  std::unique_ptr<Execution> execution;
  std::vector<float> x = std::vector<float>(fake::kElements + 1, 3.0f), y = std::vector<float>(fake::kElements + 1, -1.0f);

  explicit Affine(const bundle::Plan& plan = fake::plan(), int64_t alignment = 1) {
    device->alignment = alignment;
    auto loaded = Program::from_plan(plan, fake::on(device));
    EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().text());
    program = *loaded;
    auto made = program->create_execution();
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().text());
    execution = *std::move(made);
  }
  Status run() { return execution->run({{"x", fake::view(x.data())}}, {{"y", fake::view(y.data())}}); }
};

std::string text(const Status& status) { return status.ok() ? std::string() : status.error().text(); }

TEST(Execution, a_steps_views_go_with_its_launch_when_it_prepares_and_when_it_runs) {
  bundle::Plan plan = fake::plan();
  backend::TensorView prepared = bundle::sample::view(0), run = bundle::sample::view(1);
  plan.prepare[0].views = {prepared};
  plan.steps[0].views = {run, prepared};
  Affine t(plan);
  EXPECT_EQ(t.device->last_views, std::vector<backend::TensorView>{prepared});
  ASSERT_TRUE(t.run().ok());
  EXPECT_EQ(t.device->last_views, (std::vector<backend::TensorView>{run, prepared}));
}

TEST(Execution, an_output_without_a_binding_is_kept_and_read_afterwards) {
  Affine t;
  ASSERT_FALSE(t.execution->output("y").ok()) << "nothing has run yet";
  ASSERT_TRUE(t.execution->run({{"x", fake::view(t.x.data())}}).ok());
  const auto y = t.execution->output("y");
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(y->extents, (std::vector<int64_t>{4, 8}));
  for (int64_t i = 0; i < fake::kElements; ++i) EXPECT_EQ(static_cast<const float*>(y->data)[i], fake::expected(3.0f, i));
  EXPECT_FALSE(t.execution->output("z").ok());
  ASSERT_TRUE(t.run().ok());
  EXPECT_FALSE(t.execution->output("y").ok()) << "it stands in the caller's memory now";
}

// P31: an input that begins one element into a buffer gives the same bits as an aligned one.
TEST(Execution, a_view_with_an_odd_offset_gives_the_same_bits) {
  Affine t;
  for (int64_t i = 0; i <= fake::kElements; ++i) t.x[static_cast<size_t>(i)] = static_cast<float>(i) * 0.37f;
  std::vector<float> shifted(t.x.begin() + 1, t.x.end()), wanted(fake::kElements);
  ASSERT_TRUE(t.execution->run({{"x", fake::view(shifted.data())}}, {{"y", fake::view(wanted.data())}}).ok());
  ASSERT_TRUE(t.execution->run({{"x", fake::view(t.x.data() + 1)}}, {{"y", fake::view(t.y.data() + 1)}}).ok());
  EXPECT_EQ(std::memcmp(wanted.data(), t.y.data() + 1, wanted.size() * 4), 0);
  EXPECT_EQ(t.y[0], -1.0f);
}

// The same on a device whose kernels move 16 bytes at once: they are given aligned copies, and a second run makes no memory.
TEST(Execution, a_view_where_kernels_cannot_take_it_is_copied) {
  Affine t(fake::plan(), 16), plain;
  for (int64_t i = 0; i <= fake::kElements; ++i) t.x[static_cast<size_t>(i)] = static_cast<float>(i) * 0.37f;
  std::vector<float> wanted(fake::kElements);
  alignas(16) float x[fake::kElements + 4] = {}, y[fake::kElements + 4];
  std::copy(t.x.begin() + 1, t.x.end(), x + 1);
  std::fill(std::begin(y), std::end(y), -1.f);
  ASSERT_TRUE(plain.execution->run({{"x", fake::view(t.x.data() + 1)}}, {{"y", fake::view(wanted.data())}}).ok());
  for (int run = 0; run < 2; ++run) {
    const int before = t.device->allocations;
    ASSERT_EQ(text(t.execution->run({{"x", fake::view(x + 1)}}, {{"y", fake::view(y + 1)}})), "");
    EXPECT_EQ(t.device->allocations - before, run == 0 ? 2 : 0);
    EXPECT_EQ(std::memcmp(wanted.data(), y + 1, wanted.size() * 4), 0);
    EXPECT_EQ(y[0], -1.f);
    EXPECT_EQ(y[fake::kElements + 1], -1.f);
    std::fill(y + 1, y + 1 + fake::kElements, 0.f);
  }
  // Aligned again: used where they stand.
  ASSERT_EQ(text(t.execution->run({{"x", fake::view(x)}}, {{"y", fake::view(y)}})), "");
  EXPECT_NE(y[0], -1.f);
}

struct BadView {
  const char* what;
  TensorView view;
  const char* message;
};

// P32: strides are honoured or refused, never ignored.
TEST(Execution, a_tensor_that_does_not_fit_is_refused_with_what_was_found_and_wanted) {
  Affine t;
  std::vector<float> data(256);
  auto* p = data.data();
  const BadView bad[] = {
      {"element type", {p, ir::DType::f16, {4, 8}, {}}, "found f16[4,8], wanted f32[4,8]"},
      {"extents", {p, ir::DType::f32, {8, 4}, {}}, "found f32[8,4], wanted f32[4,8]"},
      {"rank", {p, ir::DType::f32, {32}, {}}, "found f32[32], wanted f32[4,8]"},
      {"transposed", {p, ir::DType::f32, {4, 8}, {1, 4}}, "found f32[4,8] with strides [1,4]"},
      {"rows apart", {p, ir::DType::f32, {4, 8}, {16, 1}}, "copy it to a buffer of that layout first"},
      {"expanded", {p, ir::DType::f32, {4, 8}, {0, 1}}, "with strides [0,1]"},
      {"backwards", {p + 31, ir::DType::f32, {4, 8}, {-8, -1}}, "with strides [-8,-1]"},
      {"too few strides", {p, ir::DType::f32, {4, 8}, {1}}, "1 strides for 2 extents"},
      {"misaligned", {reinterpret_cast<std::byte*>(p) + 2, ir::DType::f32, {4, 8}, {}}, "not a multiple of 4"},
      {"null", {nullptr, ir::DType::f32, {4, 8}, {}}, "data pointer is null"},
  };
  for (const auto& c : bad) {
    const int before = t.device->launches;
    const Status as_input = t.execution->run({{"x", c.view}}, {{"y", fake::view(t.y.data())}});
    ASSERT_FALSE(as_input.ok()) << c.what;
    EXPECT_EQ(as_input.error().kind, ErrorKind::user);
    EXPECT_NE(text(as_input).find(c.message), std::string::npos) << c.what << "\n" << text(as_input);
    EXPECT_NE(text(as_input).find("input 'x'"), std::string::npos) << text(as_input);
    const Status as_output = t.execution->run({{"x", fake::view(t.x.data())}}, {{"y", c.view}});
    ASSERT_FALSE(as_output.ok()) << c.what;
    EXPECT_NE(text(as_output).find("output 'y'"), std::string::npos) << text(as_output);
    EXPECT_EQ(t.device->launches, before) << "nothing may run";
  }
}

TEST(Execution, strides_of_extents_of_one_say_nothing) {
  bundle::Plan plan = fake::plan();
  plan.inputs[0].extents = {1, 32, 1};
  Affine t(plan);
  const TensorView odd{t.x.data(), ir::DType::f32, {1, 32, 1}, {7, 1, 99}};
  EXPECT_TRUE(t.execution->run({{"x", odd}}).ok());
}

TEST(Execution, names_are_checked) {
  Affine t;
  const auto x = fake::view(t.x.data()), y = fake::view(t.y.data());
  EXPECT_NE(text(t.execution->run({})).find("not bound: 'x'"), std::string::npos);
  EXPECT_NE(text(t.execution->run({{"q", x}})).find("no input 'q'"), std::string::npos);
  EXPECT_NE(text(t.execution->run({{"x", x}, {"x", x}})).find("bound twice"), std::string::npos);
  EXPECT_NE(text(t.execution->run({{"x", x}}, {{"z", y}})).find("no output 'z'"), std::string::npos);
  EXPECT_NE(text(t.execution->run({{"x", x}}, {{"y", y}, {"y", y}})).find("bound twice"), std::string::npos);
  EXPECT_TRUE(t.run().ok()) << "a refused call leaves the execution usable";
}

TEST(Execution, an_output_may_not_overlap_an_input) {
  Affine t;
  EXPECT_NE(text(t.execution->run({{"x", fake::view(t.x.data())}}, {{"y", fake::view(t.x.data() + 1)}})).find("overlaps input 'x'"), std::string::npos);
}

TEST(Execution, a_specialised_input_is_compared) {
  bundle::Plan plan = fake::plan();
  const int64_t fixed[2] = {4, 8};
  plan.specialized = {{{"shape", ir::DType::i64, {2}, {}, 0}, std::vector<std::byte>(16)}};
  std::memcpy(plan.specialized[0].bytes.data(), fixed, 16);
  Affine t(plan);
  int64_t same[2] = {4, 8}, other[2] = {8, 4};
  const Binding x{"x", fake::view(t.x.data())};
  EXPECT_TRUE(t.execution->run({x}).ok()) << "it may be left out";
  EXPECT_TRUE(t.execution->run({x, {"shape", {same, ir::DType::i64, {2}, {}}}}).ok());
  EXPECT_NE(text(t.execution->run({x, {"shape", {other, ir::DType::i64, {2}, {}}}})).find("input 'shape' has another value"), std::string::npos);
  EXPECT_FALSE(t.execution->run({x, {"shape", {same, ir::DType::i64, {1}, {}}}}).ok());
}

TEST(Execution, tensors_without_elements_are_ordinary) {
  bundle::Plan plan = fake::plan();
  plan.inputs[0].extents = {0, 8};
  plan.outputs[0].extents = {0, 8};
  plan.prepare.clear();
  for (auto& step : plan.steps) step.grid = {0, 1, 1};
  plan.arena_bytes = 0;
  plan.steps[0].arguments[2] = {bundle::SlotKind::arena, 0, 0};
  plan.steps[1].arguments[0] = {bundle::SlotKind::arena, 0, 0};
  Affine t(plan);
  const TensorView none{nullptr, ir::DType::f32, {0, 8}, {}};
  const Status status = t.execution->run({{"x", none}}, {{"y", none}});
  EXPECT_TRUE(status.ok()) << text(status);
  EXPECT_EQ(t.device->launches, 0) << "a launch with no groups is never issued";
}

TEST(Execution, a_state_lives_in_the_execution) {
  bundle::Plan plan = fake::plan();
  plan.inputs.push_back({"past", ir::DType::f32, {4, 8}, {}, 0});
  plan.outputs.push_back({"present", ir::DType::f32, {4, 8}, {}, 0});
  plan.states = {{{"sum", ir::DType::f32, {4, 8}, {}, 0}, 1, 1, -1}};
  plan.steps.push_back({0, "accumulate", {fake::kElements, 1, 1}, {}, 0, {{bundle::SlotKind::input, 0, 0}, {bundle::SlotKind::output, 1, 0}}, "sum"});
  Affine t(plan);
  const auto sum = [&] { return static_cast<const float*>(t.execution->output("present")->data)[5]; };
  ASSERT_TRUE(t.run().ok());
  EXPECT_EQ(sum(), 3.0f) << "a state starts as zeros";
  ASSERT_TRUE(t.run().ok());
  EXPECT_EQ(sum(), 6.0f);
  std::vector<float> start(fake::kElements, 100.0f);
  ASSERT_TRUE(t.execution->run({{"x", fake::view(t.x.data())}, {"past", fake::view(start.data())}}, {{"y", fake::view(t.y.data())}}).ok());
  EXPECT_EQ(sum(), 103.0f) << "binding its input sets it";
  EXPECT_EQ(start[5], 100.0f) << "and leaves the caller's memory alone";
  auto other = t.program->create_execution();
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE((*other)->run({{"x", fake::view(t.x.data())}}).ok());
  EXPECT_EQ(static_cast<const float*>((*other)->output("present")->data)[5], 3.0f) << "each execution has its own";
  std::vector<float> present(fake::kElements);
  ASSERT_TRUE(t.execution->run({{"x", fake::view(t.x.data())}}, {{"present", fake::view(present.data())}}).ok());
  EXPECT_EQ(present[5], 106.0f) << "binding its output gives a copy";
  EXPECT_EQ(sum(), 106.0f);
}

TEST(Execution, copies_follow_the_steps) {
  bundle::Plan plan = fake::plan();
  plan.outputs.push_back({"same", ir::DType::f32, {4, 8}, {}, 0});
  plan.outputs.push_back({"x_again", ir::DType::f32, {4, 8}, {}, 0});
  plan.copies = {{{bundle::SlotKind::output, 0, 0}, {bundle::SlotKind::output, 1, 0}, fake::kElements * 4},
                 {{bundle::SlotKind::input, 0, 0}, {bundle::SlotKind::output, 2, 0}, fake::kElements * 4}};
  for (const bool host_memory : {true, false}) {
    const auto device = std::make_shared<FakeDevice>();
    device->host_memory = host_memory;
    const auto program = Program::from_plan(plan, fake::on(device));
    ASSERT_TRUE(program.ok());
    auto execution = *(*program)->create_execution();
    std::vector<float> x(fake::kElements, 3.0f);
    ASSERT_TRUE(execution->run({{"x", fake::view(x.data())}}).ok());
    EXPECT_EQ(static_cast<const float*>(execution->output("same")->data)[7], fake::expected(3.0f, 7));
    EXPECT_EQ(static_cast<const float*>(execution->output("x_again")->data)[7], 3.0f);
  }
}

TEST(Execution, a_failed_launch_is_an_error_and_its_output_cannot_be_read) {
  Affine t;
  ASSERT_TRUE(t.execution->run({{"x", fake::view(t.x.data())}}).ok());
  t.device->fail_launch_from = t.device->launches + 2;
  const Status status = t.execution->run({{"x", fake::view(t.x.data())}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::device);
  EXPECT_NE(text(status).find("region shift, kernel affine_f32_4x8"), std::string::npos) << text(status);
  EXPECT_FALSE(t.execution->output("y").ok());
}

TEST(Execution, a_timed_run_lists_every_step) {
  Affine t;
  std::vector<StepTime> times;
  ASSERT_TRUE(t.execution->run_timed({{"x", fake::view(t.x.data())}}, &times).ok());
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].region, "scale");
  EXPECT_EQ(times[1].kernel, "affine_f32_4x8");
  EXPECT_GE(times[1].ms, 0.0);
}

TEST(Execution, a_run_in_the_steady_state_allocates_nothing) {
  Affine t;
  const std::vector<Binding> inputs = {{"x", fake::view(t.x.data())}}, moved = {{"x", fake::view(t.x.data() + 1)}};
  const std::vector<Binding> outputs = {{"y", fake::view(t.y.data())}};
  ASSERT_TRUE(t.execution->run(inputs, outputs).ok());
  ASSERT_TRUE(t.execution->run(inputs).ok());
  const int64_t before = allocations_here;
  const int device_before = t.device->allocations;
  bool ok = true;
  for (int i = 0; i < 100; ++i) ok = t.execution->run(i % 2 ? inputs : moved, outputs).ok() && t.execution->run(inputs).ok() && ok;
  EXPECT_EQ(allocations_here, before);
  EXPECT_EQ(t.device->allocations, device_before);
  EXPECT_TRUE(ok);
}

TEST(Execution, four_threads_run_their_own_executions_of_one_program_at_once) {
  Affine t;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      auto execution = t.program->create_execution();
      std::vector<float> x(fake::kElements), y(fake::kElements);
      for (int round = 0; round < 200; ++round) {
        const auto value = static_cast<float>(number * 1000 + round);
        std::fill(x.begin(), x.end(), value);
        if (!execution.ok() || !(*execution)->run({{"x", fake::view(x.data())}}, {{"y", fake::view(y.data())}}).ok()) ++wrong;
        for (int64_t i = 0; i < fake::kElements; ++i) wrong += y[static_cast<size_t>(i)] != fake::expected(value, i);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Execution, a_second_thread_in_one_execution_is_told_so) {
  Affine* running = nullptr;
  Status inner;
  fake::kernels()["intrude"] = [&](void* const*, int64_t) { inner = running->run(); };
  bundle::Plan plan = fake::plan();
  plan.steps[0].entry = "intrude";
  Affine t(plan);
  running = &t;
  EXPECT_TRUE(t.run().ok());
  EXPECT_NE(text(inner).find("another thread is running this execution"), std::string::npos);
  fake::kernels().erase("intrude");
}

}  // namespace

}  // namespace rtx::runtime

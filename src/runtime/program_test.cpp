#include "runtime/program.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "runtime/fake_device_testing.h"

namespace rtx::runtime {

namespace {

using bundle::sample::Directory;
using fake::FakeDevice;

std::string write_plan(const Directory& directory, const bundle::Plan& plan, const bundle::KeyPair* key = nullptr) {
  bundle::WriteOptions options;
  options.key = key;
  const std::string path = directory / "model.rtxgc";
  EXPECT_TRUE(bundle::write(plan, path, options).ok());
  return path;
}

// Runs the affine plan once on fresh data; the error when it does not.
Status run_affine(const Program& program, const Allocator& allocator = {}) {
  RTX_TRY(auto execution, program.create_execution(allocator));
  std::vector<float> x(fake::kElements, 3.0f), y(fake::kElements, -1.0f);
  RTX_CHECK(execution->run({{"x", fake::view(x.data())}}, {{"y", fake::view(y.data())}}));
  for (int64_t i = 0; i < fake::kElements; ++i) EXPECT_EQ(y[static_cast<size_t>(i)], fake::expected(3.0f, i));
  return success();
}

TEST(Program, a_signed_bundle_loads_and_computes) {
  Directory directory;
  const auto key = bundle::new_key(directory / "keys", "me");
  ASSERT_TRUE(key.ok());
  LoadOptions options = fake::on(std::make_shared<FakeDevice>());
  options.allow_unsigned = false;
  options.key_directory = directory / "keys";
  const auto program = Program::load(write_plan(directory, fake::plan(), &*key), options);
  ASSERT_TRUE(program.ok()) << program.error().text();
  const Status status = run_affine(**program);
  EXPECT_TRUE(status.ok()) << status.error().text();
  const LoadReport report = (*program)->report();
  EXPECT_EQ(report.verdict, "exact");
  EXPECT_EQ(report.constant_bytes, fake::kElements * 4 + 4);
  EXPECT_GT(report.file_bytes, 4096);
  EXPECT_GT(report.load_ms, 0.0);
  EXPECT_LT(report.load_ms, 100.0);
  EXPECT_GT(report.constants_ms, 0.0);
}

TEST(Program, an_unsigned_bundle_and_one_of_a_stranger_load_only_when_allowed) {
  Directory directory;
  const auto stranger = bundle::sample::key(9);
  for (const bundle::KeyPair* key : {static_cast<const bundle::KeyPair*>(nullptr), &stranger}) {
    const std::string path = write_plan(directory, fake::plan(), key);
    LoadOptions options = fake::on(std::make_shared<FakeDevice>());
    options.allow_unsigned = false;
    const auto refused = Program::load(path, options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::bundle);
    EXPECT_NE(refused.error().text().find("--allow-unsigned"), std::string::npos);
    options.allow_unsigned = true;
    EXPECT_TRUE(Program::load(path, options).ok());
  }
}

TEST(Program, a_plan_in_memory_takes_the_same_path) {
  const auto program = Program::from_plan(fake::plan(), fake::on(std::make_shared<FakeDevice>()));
  ASSERT_TRUE(program.ok()) << program.error().text();
  EXPECT_TRUE(run_affine(**program).ok());
}

// The damage half of P47: a header edited and signed again by somebody who may sign.
TEST(Program, a_bundle_for_another_arch_or_a_newer_driver_never_runs) {
  Directory directory;
  const auto key = bundle::sample::key(3);
  struct Edit {
    std::string arch, driver, field;
  };
  for (const Edit& edit : {Edit{"fake-0", "none", "arch"}, Edit{"fake-1", "driver 99", "driver"}}) {
    bundle::Plan plan = fake::plan();
    plan.identity.arch = edit.arch;
    plan.identity.driver = edit.driver;
    const auto device = std::make_shared<FakeDevice>();
    const auto program = Program::load(write_plan(directory, plan, &key), fake::on(device));
    ASSERT_FALSE(program.ok());
    EXPECT_EQ(program.error().kind, ErrorKind::bundle);
    const std::string text = program.error().text();
    EXPECT_NE(text.find(edit.field + ": found '"), std::string::npos) << text;
    EXPECT_NE(text.find("wanted '"), std::string::npos) << text;
    EXPECT_EQ(device->loads, 0) << "no kernel of it may reach the device";
    EXPECT_EQ(device->launches, 0);
  }
}

TEST(Program, a_rebuild_is_asked_for_announced_and_judged_again) {
  Directory directory;
  bundle::Plan old = fake::plan();
  old.identity.arch = "fake-0";
  const std::string path = write_plan(directory, old);
  const auto device = std::make_shared<FakeDevice>();
  LoadOptions options = fake::on(device);
  std::vector<std::string> lines;
  options.notice = [&](std::string_view line) { lines.emplace_back(line); };
  int calls = 0;
  options.rebuild = [&](const bundle::Opened& opened, const bundle::Verdict& verdict) -> Result<bundle::Plan> {
    ++calls;
    EXPECT_EQ(verdict.kind, bundle::VerdictKind::rebuild);
    EXPECT_EQ(opened.plan.identity.arch, "fake-0");
    return fake::plan();
  };
  const auto program = Program::load(path, options);
  ASSERT_TRUE(program.ok()) << program.error().text();
  EXPECT_EQ(calls, 1);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("fake-0"), std::string::npos) << lines[0];
  EXPECT_EQ((*program)->report().verdict, "rebuild");
  EXPECT_TRUE(run_affine(**program).ok());

  options.rebuild = [&](const bundle::Opened& opened, const bundle::Verdict&) -> Result<bundle::Plan> { return opened.plan; };
  EXPECT_EQ(Program::load(path, options).error().kind, ErrorKind::bundle) << "a rebuilt plan that does not fit either";
  options.rebuild = [](const bundle::Opened&, const bundle::Verdict&) -> Result<bundle::Plan> { return error_of(ErrorKind::device, "no compiler", ""); };
  EXPECT_EQ(Program::load(path, options).error().kind, ErrorKind::device);
}

TEST(Program, another_target_is_refused_even_where_rebuilding_is_possible) {
  bundle::Plan plan = fake::plan();
  plan.identity.target = "other";
  LoadOptions options = fake::on(std::make_shared<FakeDevice>());
  options.rebuild = [](const bundle::Opened&, const bundle::Verdict&) -> Result<bundle::Plan> { return fake::plan(); };
  EXPECT_EQ(Program::from_plan(plan, options).error().kind, ErrorKind::bundle);
}

TEST(Program, a_bundle_tuned_elsewhere_runs_and_says_so_in_one_line) {
  const auto device = std::make_shared<FakeDevice>();
  device->caps_to_change().device = "a newer fake device";
  LoadOptions options = fake::on(device);
  std::vector<std::string> lines;
  options.notice = [&](std::string_view line) { lines.emplace_back(line); };
  const auto program = Program::from_plan(fake::plan(), options);
  ASSERT_TRUE(program.ok());
  EXPECT_EQ((*program)->report().verdict, "compatible");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("tuned elsewhere"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[0].find('\n'), std::string::npos);
}

TEST(Program, damaged_constants_are_found_before_they_are_used_and_stay_an_error) {
  Directory directory;
  const std::string path = write_plan(directory, fake::plan());
  auto bytes = bundle::sample::bytes_of(path);
  bytes[4096 + 70] ^= std::byte{1};
  bundle::sample::write_bytes(path, bytes);
  const auto device = std::make_shared<FakeDevice>();
  const auto program = Program::load(path, fake::on(device));
  ASSERT_TRUE(program.ok()) << program.error().text();
  for (int i = 0; i < 2; ++i) {
    const auto execution = (*program)->create_execution();
    ASSERT_FALSE(execution.ok());
    EXPECT_EQ(execution.error().kind, ErrorKind::bundle);
  }
  EXPECT_FALSE((*program)->prepare().ok());
  EXPECT_EQ(device->launches, 0);
}

TEST(Program, constants_are_packed_once_however_many_threads_ask) {
  const auto device = std::make_shared<FakeDevice>();
  const auto program = Program::from_plan(fake::plan(), fake::on(device));
  ASSERT_TRUE(program.ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_TRUE((*program)->prepare().ok()); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(device->launches, 1);
  EXPECT_EQ(device->copies_in, 0) << "host memory is used where it stands";
}

TEST(Program, a_device_with_memory_of_its_own_gets_its_constants_once) {
  const auto device = std::make_shared<FakeDevice>();
  device->host_memory = false;
  const auto program = Program::from_plan(fake::plan(), fake::on(device));
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(run_affine(**program).ok());
  EXPECT_TRUE(run_affine(**program).ok());
  EXPECT_EQ(device->copies_in, 2);
}

TEST(Program, everything_is_taken_from_the_callers_allocator_and_given_back) {
  const auto device = std::make_shared<FakeDevice>();
  LoadOptions options = fake::on(device);
  int64_t alive = 0, peak = 0;
  const auto counting = [&](int64_t& taken) {
    Allocator allocator;
    allocator.allocate = [&](int64_t bytes, int64_t alignment) -> void* {
      taken += bytes;
      peak = std::max(peak, alive += bytes);
      return std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>((bytes + alignment - 1) / alignment * alignment));
    };
    allocator.release = [&](void* pointer, int64_t bytes) {
      alive -= bytes;
      std::free(pointer);
    };
    return allocator;
  };
  int64_t of_program = 0, of_execution = 0;
  options.allocator = counting(of_program);
  {
    const auto program = Program::from_plan(fake::plan(), options);
    ASSERT_TRUE(program.ok());
    auto execution = (*program)->create_execution(counting(of_execution));
    ASSERT_TRUE(execution.ok());
    std::vector<float> x(fake::kElements, 3.0f);
    ASSERT_TRUE((*execution)->run({{"x", fake::view(x.data())}}).ok());
    EXPECT_EQ(of_program, fake::kElements * 4) << "the prepared buffer";
    EXPECT_EQ(of_execution, 64 + 2 * fake::kElements * 4) << "arena and the output that was not bound";
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(device->allocations, 0);
}

TEST(Program, an_allocator_that_fails_misaligns_or_is_half_there_is_an_error) {
  const auto program = Program::from_plan(fake::plan(), fake::on(std::make_shared<FakeDevice>()));
  ASSERT_TRUE(program.ok());
  Allocator none;
  none.allocate = [](int64_t, int64_t) -> void* { return nullptr; };
  none.release = [](void*, int64_t) {};
  const auto exhausted = (*program)->create_execution(none);
  ASSERT_FALSE(exhausted.ok());
  EXPECT_EQ(exhausted.error().kind, ErrorKind::device);
  EXPECT_NE(exhausted.error().text().find("192 bytes"), std::string::npos) << exhausted.error().text();

  alignas(64) static std::byte space[4096];
  Allocator crooked;
  crooked.allocate = [](int64_t, int64_t) -> void* { return space + 8; };
  crooked.release = [](void*, int64_t) {};
  EXPECT_EQ((*program)->create_execution(crooked).error().kind, ErrorKind::user);

  Allocator half;
  half.allocate = none.allocate;
  EXPECT_EQ((*program)->create_execution(half).error().kind, ErrorKind::user);
  LoadOptions options = fake::on(std::make_shared<FakeDevice>());
  options.allocator = half;
  EXPECT_EQ(Program::from_plan(fake::plan(), options).error().kind, ErrorKind::user);
}

TEST(Program, a_verdict_needs_no_device_and_comes_in_under_20_ms) {
  Directory directory;
  bundle::Plan plan = fake::plan();
  plan.kernels[0].binary.assign(4 << 20, std::byte{7});
  const std::string path = write_plan(directory, plan);
  backend::Caps here = FakeDevice().caps();
  bundle::ReadOptions read;
  read.allow_unsigned = true;
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto opened = bundle::open_manifest(path, read);
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(bundle::judge(opened->plan.identity, here).kind, bundle::VerdictKind::exact);
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(best, 20.0);
#endif
}

}  // namespace

}  // namespace rtx::runtime

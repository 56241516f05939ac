#include "bundle/bundle.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>

#include "bundle/layout.h"
#include "bundle/sample_testing.h"

namespace rtx::bundle {

namespace {

using sample::Directory;

void expect_same_tensor(const TensorInfo& a, const TensorInfo& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.extents, b.extents);
  EXPECT_EQ(a.strides, b.strides);
  EXPECT_EQ(a.offset, b.offset);
}

void expect_same_step(const Step& a, const Step& b) {
  EXPECT_EQ(a.kernel, b.kernel);
  EXPECT_EQ(a.entry, b.entry);
  EXPECT_EQ(a.grid, b.grid);
  EXPECT_EQ(a.group, b.group);
  EXPECT_EQ(a.scratch_bytes, b.scratch_bytes);
  EXPECT_EQ(a.arguments, b.arguments);
  EXPECT_EQ(a.region, b.region);
  EXPECT_EQ(a.views, b.views);
}

void expect_same_plan(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.model_name, b.model_name);
  EXPECT_EQ(a.identity.target, b.identity.target);
  EXPECT_EQ(a.identity.device, b.identity.device);
  EXPECT_EQ(a.identity.arch, b.identity.arch);
  EXPECT_EQ(a.identity.driver, b.identity.driver);
  EXPECT_EQ(a.identity.runtime_abi, b.identity.runtime_abi);
  EXPECT_EQ(a.identity.toolchain, b.identity.toolchain);
  EXPECT_EQ(a.identity.synth_sha, b.identity.synth_sha);
  EXPECT_EQ(a.graph, b.graph);
  EXPECT_EQ(a.deterministic, b.deterministic);
  EXPECT_EQ(a.summary, b.summary);
  EXPECT_EQ(a.sbom, b.sbom);
  EXPECT_EQ(a.arena_bytes, b.arena_bytes);
  EXPECT_EQ(a.prepared_bytes, b.prepared_bytes);
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  for (size_t i = 0; i < a.inputs.size(); ++i) expect_same_tensor(a.inputs[i], b.inputs[i]);
  ASSERT_EQ(a.outputs.size(), b.outputs.size());
  for (size_t i = 0; i < a.outputs.size(); ++i) expect_same_tensor(a.outputs[i], b.outputs[i]);
  ASSERT_EQ(a.specialized.size(), b.specialized.size());
  for (size_t i = 0; i < a.specialized.size(); ++i) EXPECT_EQ(a.specialized[i].bytes, b.specialized[i].bytes);
  ASSERT_EQ(a.states.size(), b.states.size());
  for (size_t i = 0; i < a.states.size(); ++i) {
    expect_same_tensor(a.states[i].info, b.states[i].info);
    EXPECT_EQ(a.states[i].input, b.states[i].input);
    EXPECT_EQ(a.states[i].output, b.states[i].output);
    EXPECT_EQ(a.states[i].axis, b.states[i].axis);
  }
  ASSERT_EQ(a.kernels.size(), b.kernels.size());
  for (size_t i = 0; i < a.kernels.size(); ++i) {
    EXPECT_EQ(a.kernels[i].name, b.kernels[i].name);
    EXPECT_EQ(a.kernels[i].family, b.kernels[i].family);
    EXPECT_EQ(a.kernels[i].key, b.kernels[i].key);
    EXPECT_EQ(a.kernels[i].parameters, b.kernels[i].parameters);
    EXPECT_EQ(a.kernels[i].numerics_class, b.kernels[i].numerics_class);
    EXPECT_EQ(a.kernels[i].region, b.kernels[i].region);
    EXPECT_EQ(a.kernels[i].source, b.kernels[i].source);
    EXPECT_EQ(a.kernels[i].binary, b.kernels[i].binary);
    EXPECT_EQ(a.kernels[i].measured_ms, b.kernels[i].measured_ms);
  }
  ASSERT_EQ(a.constants.size(), b.constants.size());
  for (size_t i = 0; i < a.constants.size(); ++i) {
    expect_same_tensor(a.constants[i].info, b.constants[i].info);
    ASSERT_EQ(a.constants[i].byte_size, b.constants[i].byte_size);
    if (a.constants[i].byte_size == 0) continue;
    EXPECT_EQ(std::memcmp(a.constants[i].bytes, b.constants[i].bytes, static_cast<size_t>(a.constants[i].byte_size)), 0);
  }
  ASSERT_EQ(a.prepare.size(), b.prepare.size());
  for (size_t i = 0; i < a.prepare.size(); ++i) expect_same_step(a.prepare[i], b.prepare[i]);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) expect_same_step(a.steps[i], b.steps[i]);
  ASSERT_EQ(a.copies.size(), b.copies.size());
  for (size_t i = 0; i < a.copies.size(); ++i) {
    EXPECT_EQ(a.copies[i].from, b.copies[i].from);
    EXPECT_EQ(a.copies[i].to, b.copies[i].to);
    EXPECT_EQ(a.copies[i].bytes, b.copies[i].bytes);
  }
}

std::string text_of(const Error& error) { return error.text(); }

// Writes the sample signed by key 1 and opens it with everything unpacked.
Result<Opened> round_trip(const Plan& plan, const std::string& path, WriteOptions options = {}) {
  const KeyPair key = sample::key(1);
  options.key = &key;
  RTX_CHECK(write(plan, path, options));
  ReadOptions read = sample::trusting(key);
  read.sources = true;
  return open(path, read);
}

TEST(Bundle, a_plan_comes_back_as_it_was_written) {
  Directory directory;
  const Plan plan = sample::plan();
  const auto opened = round_trip(plan, directory / "a.rtxgc");
  ASSERT_TRUE(opened.ok()) << text_of(opened.error());
  expect_same_plan(plan, opened->plan);
  EXPECT_EQ(opened->signature, SignatureState::trusted);
  EXPECT_EQ(opened->signer, layout::hex(sample::key(1).public_key));
  EXPECT_EQ(opened->sections.size(), 5u);
}

TEST(Bundle, views_of_a_steps_arguments_come_back_and_ask_for_a_runtime_that_knows_them) {
  Directory directory;
  Plan plan = sample::plan();
  EXPECT_EQ(runtime_abi_of(plan), kRuntimeAbi);
  plan.steps[0].views = {sample::view(1), sample::view(0)};
  plan.identity.runtime_abi = runtime_abi_of(plan);
  EXPECT_EQ(plan.identity.runtime_abi, 2);
  const auto opened = round_trip(plan, directory / "a.rtxgc");
  ASSERT_TRUE(opened.ok()) << text_of(opened.error());
  expect_same_plan(plan, opened->plan);
  EXPECT_EQ(opened->format_minor, 1);
}

TEST(Bundle, a_plan_with_nothing_in_it_comes_back) {
  Directory directory;
  const auto opened = round_trip(Plan{}, directory / "empty.rtxgc");
  ASSERT_TRUE(opened.ok()) << text_of(opened.error());
  expect_same_plan(Plan{}, opened->plan);
}

TEST(Bundle, the_same_plan_and_key_give_the_same_bytes) {
  Directory directory;
  ASSERT_TRUE(round_trip(sample::plan(), directory / "a.rtxgc").ok());
  ASSERT_TRUE(round_trip(sample::plan(), directory / "b.rtxgc").ok());
  EXPECT_EQ(sample::bytes_of(directory / "a.rtxgc"), sample::bytes_of(directory / "b.rtxgc"));
}

TEST(Bundle, equal_constants_are_stored_once_and_large_ones_start_on_a_page) {
  Directory directory;
  Plan plan = sample::plan();
  plan.constants = {sample::constant("small", {3}, 5), sample::constant("large", {300, 1024}, 1), sample::constant("same", {1024, 300}, 1)};
  plan.prepare.clear();
  plan.steps.clear();
  const auto opened = round_trip(plan, directory / "a.rtxgc");
  ASSERT_TRUE(opened.ok()) << text_of(opened.error());
  expect_same_tensor(opened->plan.constants[2].info, plan.constants[2].info);
  EXPECT_EQ(opened->plan.constants[1].bytes, opened->plan.constants[2].bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(opened->plan.constants[1].bytes) % 4096, 0u);
  EXPECT_LT(opened->file_bytes, 2 * 300 * 1024 * 4);
}

TEST(Bundle, constants_may_stand_in_a_file_beside_the_bundle) {
  Directory directory;
  const Plan plan = sample::plan();
  WriteOptions options;
  options.constants_file = "weights.bin";
  const auto opened = round_trip(plan, directory / "a.rtxgc", options);
  ASSERT_TRUE(opened.ok()) << text_of(opened.error());
  expect_same_plan(plan, opened->plan);

  auto side = sample::bytes_of(directory / "weights.bin");
  side[100] ^= std::byte{1};
  sample::write_bytes(directory / "weights.bin", side);
  const auto changed = open(directory / "a.rtxgc", sample::trusting(sample::key(1)));
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().kind, ErrorKind::bundle);
  EXPECT_NE(text_of(changed.error()).find("chunk 0 of its constants"), std::string::npos) << text_of(changed.error());

  side.push_back(std::byte{0});
  sample::write_bytes(directory / "weights.bin", side);
  EXPECT_NE(text_of(open(directory / "a.rtxgc", sample::trusting(sample::key(1))).error()).find("the manifest says"), std::string::npos);

  ASSERT_EQ(::unlink((directory / "weights.bin").c_str()), 0);
  const auto missing = open(directory / "a.rtxgc", sample::trusting(sample::key(1)));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::bundle);
  EXPECT_TRUE(open_manifest(directory / "a.rtxgc", sample::trusting(sample::key(1))).ok()) << "a check needs no constants";
}

TEST(Bundle, sources_are_left_out_when_asked_and_packed_when_not_asked_for) {
  Directory directory;
  WriteOptions options;
  options.sources = false;
  const auto without = round_trip(sample::plan(), directory / "a.rtxgc", options);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->plan.kernels[0].source, "");
  ASSERT_TRUE(round_trip(sample::plan(), directory / "b.rtxgc").ok());
  const auto lazily = open(directory / "b.rtxgc", sample::trusting(sample::key(1)));
  ASSERT_TRUE(lazily.ok());
  EXPECT_EQ(lazily->plan.kernels[0].source, "") << "only when ReadOptions::sources asks";
}

TEST(Bundle, a_manifest_opens_without_constants) {
  Directory directory;
  ASSERT_TRUE(round_trip(sample::plan(), directory / "a.rtxgc").ok());
  const auto opened = open_manifest(directory / "a.rtxgc", sample::trusting(sample::key(1)));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->plan.identity.arch, "null-1");
  EXPECT_EQ(opened->plan.constants[0].bytes, nullptr);
  EXPECT_EQ(opened->plan.constants[0].byte_size, 32 * 48 * 4);
}

TEST(Bundle, constants_can_be_verified_one_at_a_time) {
  Directory directory;
  Plan plan = sample::plan();
  plan.constants = {sample::constant("first", {400, 1024}, 1), sample::constant("second", {400, 1024}, 2)};
  plan.prepare.clear();
  plan.steps.clear();
  ASSERT_TRUE(round_trip(plan, directory / "a.rtxgc").ok());
  auto bytes = sample::bytes_of(directory / "a.rtxgc");
  bytes[4096 + 3 * (1 << 20)] ^= std::byte{16};  // chunk 3 belongs to the second
  sample::write_bytes(directory / "a.rtxgc", bytes);
  ReadOptions options = sample::trusting(sample::key(1));
  options.verify_constants = false;
  const auto opened = open(directory / "a.rtxgc", options);
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->verify_constant(0).ok());
  EXPECT_FALSE(opened->verify_constant(1).ok());
  EXPECT_FALSE(opened->verify_constants(2).ok());
  EXPECT_FALSE(open(directory / "a.rtxgc", sample::trusting(sample::key(1))).ok()) << "open verifies them unless told otherwise";
}

TEST(Bundle, what_cannot_be_written_is_an_output_error_and_leaves_nothing_behind) {
  Directory directory;
  const Status status = write(sample::plan(), directory / "no/such/place.rtxgc", {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::output);
  EXPECT_TRUE(list_directory(directory.path()).empty());
  WriteOptions elsewhere;
  elsewhere.constants_file = "../weights.bin";
  EXPECT_EQ(write(sample::plan(), directory / "a.rtxgc", elsewhere).error().kind, ErrorKind::user);
  EXPECT_TRUE(list_directory(directory.path()).empty());
}

TEST(Bundle, a_path_that_is_no_file_is_the_users_mistake) {
  Directory directory;
  EXPECT_EQ(open(directory / "nothing.rtxgc", {}).error().kind, ErrorKind::user);
  EXPECT_EQ(open(directory.path(), {}).error().kind, ErrorKind::user);
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(open(directory / "pipe", {}).error().kind, ErrorKind::user) << "and nobody waits for a writer";
}

// The golden file of each format version opens for ever. Made once, by this test with RTX_WRITE_GOLDEN set.
TEST(Bundle, the_golden_file_of_version_1_still_opens) {
  const std::string path = "tests/golden/v1.rtxgc";
  const KeyPair key = sample::key(42);
  if (std::getenv("RTX_WRITE_GOLDEN")) {
    WriteOptions options;
    options.key = &key;
    ASSERT_TRUE(write(sample::plan(), path, options).ok());
  }
  ReadOptions read = sample::trusting(key);
  read.sources = true;
  const auto opened = open(path, read);
  ASSERT_TRUE(opened.ok()) << text_of(opened.error());
  EXPECT_EQ(opened->format_major, 1);
  EXPECT_EQ(opened->format_minor, 0);
  expect_same_plan(sample::plan(), opened->plan);
}

}  // namespace

}  // namespace rtx::bundle

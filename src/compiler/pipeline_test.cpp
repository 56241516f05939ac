#include "compiler/pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "backend/all_compile.h"
#include "backend/all_device.h"
#include "base/files.h"
#include "compiler/lock.h"
#include "ir/text.h"
#include "reference/reference.h"
#include "runtime/program.h"
#include "validate/validate.h"

namespace rtx::compiler {
namespace {

using ir::DType;
using ir::HostTensor;

// The cpu target's tools, shared by the tests of this file; kernels are remembered in a directory of its own.
struct Bench {
  std::shared_ptr<backend::Device> device;
  std::unique_ptr<backend::Compiler> compiler;
  std::unique_ptr<cache::Cache> cache;
  codegen::Dialect dialect;
  Toolbox toolbox() { return {compiler.get(), device.get(), dialect, cache.get(), nullptr}; }
};

Bench& bench() {
  static Bench shared = [] {
    Bench out;
    for (const auto& side : backend::all_devices())
      if (side.target == "cpu") out.device = *side.device(2, {}, 0);
    const char* path = std::getenv("PATH");
    for (const auto& side : backend::all_compilers())
      if (side.target == "cpu") {
        backend::CompileSettings settings;
        settings.path = path ? path : "/usr/bin:/bin";
        settings.temporary = testing::TempDir();
        out.compiler = side.compiler(settings);
        out.dialect = side.dialect(out.device->caps());
      }
    out.cache = cache::Cache::open({.directory = *make_temp_directory(testing::TempDir(), "rtx-pipeline-"), .max_bytes = 1 << 30, .warn = {}});
    return out;
  }();
  return shared;
}

Options untuned() {
  Options options;
  options.tune = false;
  options.jobs = 1;
  return options;
}

// Runs a compiled plan `times` times on the same bindings and gives the outputs.
std::vector<HostTensor> run(const bundle::Plan& plan, std::vector<HostTensor> inputs, int times = 1) {
  runtime::LoadOptions load;
  load.device = bench().device;
  load.allow_unsigned = true;
  auto program = runtime::Program::from_plan(plan, load);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().text());
  auto execution = (*program)->create_execution();
  EXPECT_TRUE(execution.ok());
  std::vector<HostTensor> outputs;
  std::vector<runtime::Binding> in, out;
  for (size_t i = 0; i < plan.inputs.size(); ++i) in.push_back({plan.inputs[i].name, {inputs[i].mutable_bytes(), inputs[i].dtype(), inputs[i].extents(), {}}});
  for (const auto& info : plan.outputs) outputs.emplace_back(info.dtype, info.extents);
  for (size_t i = 0; i < plan.outputs.size(); ++i) out.push_back({plan.outputs[i].name, {outputs[i].mutable_bytes(), outputs[i].dtype(), outputs[i].extents(), {}}});
  for (int i = 0; i < times; ++i) {
    auto ran = (*execution)->run(in, out);
    EXPECT_TRUE(ran.ok()) << (ran.ok() ? "" : ran.error().text());
  }
  return outputs;
}

// Compiles and compares every output with the reference on random inputs.
Compiled check(const std::string& text, const Options& options = untuned()) {
  const auto graph = ir::parse_or_die(text);
  auto compiled = compile(graph, bench().toolbox(), options);
  EXPECT_TRUE(compiled.ok()) << (compiled.ok() ? "" : compiled.error().text());
  if (!compiled.ok()) return {};
  const auto inputs = validate::make_inputs(graph, 1, validate::InputKind::random);
  const auto wanted = reference::run(graph, inputs);
  const auto found = run(compiled->plan, inputs);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto comparison = validate::compare(graph.output_name(i), found[i], (*wanted)[i], {});
    EXPECT_TRUE(comparison.agrees) << comparison.detail.text();
  }
  return *std::move(compiled);
}

TEST(Place, buffers_that_live_together_never_overlap_and_a_chain_reaches_the_lower_bound) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes(1 + random() % 40);
    for (auto& lifetime : lifetimes) {
      lifetime.bytes = static_cast<int64_t>(random() % 5000);
      lifetime.first = static_cast<int>(random() % 20);
      lifetime.last = lifetime.first + static_cast<int>(random() % 5);
    }
    const auto placed = place(lifetimes);
    EXPECT_GE(placed.peak, placed.lower_bound);
    for (size_t a = 0; a < lifetimes.size(); ++a) {
      EXPECT_EQ(placed.offsets[a] % 64, 0);
      EXPECT_LE(placed.offsets[a] + lifetimes[a].bytes, placed.peak);
      for (size_t b = 0; b < a; ++b) {
        const bool together = lifetimes[a].first <= lifetimes[b].last && lifetimes[b].first <= lifetimes[a].last;
        const bool apart = placed.offsets[a] + lifetimes[a].bytes <= placed.offsets[b] || placed.offsets[b] + lifetimes[b].bytes <= placed.offsets[a];
        EXPECT_TRUE(!together || apart || lifetimes[a].bytes == 0 || lifetimes[b].bytes == 0);
      }
    }
  }
  std::vector<Lifetime> chain;
  for (int i = 0; i < 10; ++i) chain.push_back({1024, i, i + 1});
  EXPECT_EQ(place(chain).peak, 2048);
  EXPECT_EQ(place(chain).lower_bound, 2048);
}

TEST(Pipeline, a_small_transformer_piece_computes_what_the_reference_does) {
  const auto compiled = check(
      "x: f32[1,9,24]; w: f32[24,24]; b: f32[24]; g: f32[24];"
      "h = matmul(x, w); a = add(h, b); t = gelu(a); r = add(t, x); y = layer_norm(r, g, b, axis=2, epsilon=1e-05); s = softmax(r, axis=2); return y, s, r");
  EXPECT_GT(compiled.report.kernels, 0);
  EXPECT_LT(compiled.report.regions, 6);
}

TEST(Pipeline, two_regions_with_one_key_share_a_kernel_and_a_second_compile_starts_no_compiler) {
  const std::string text = "x: f32[8,16]; w: f32[16,16]; v: f32[16,16]; a = matmul(x, w); b = matmul(a, v); return b";
  const auto first = check(text);
  EXPECT_EQ(first.report.regions, 2);
  EXPECT_EQ(first.report.kernels, 1);
  const auto second = check(text);
  EXPECT_EQ(second.report.hits, 1);
  EXPECT_EQ(second.report.compiles, 0);
  EXPECT_EQ(second.report.cache_hit_pct(), 100);
}

TEST(Pipeline, outputs_that_are_inputs_constants_reshapes_or_each_other_are_all_written) {
  check("x: f32[4,6]; c: const f32[3] {1, 2, 3}; r = reshape(x): [24]; n = neg(x); m = reshape(n): [2,12]; return x, c, r, n, m, n as \"again\"");
}

TEST(Pipeline, zero_size_dimensions_run_and_a_product_over_nothing_is_its_bias) {
  check("x: f32[0,6]; w: f32[6,4]; y = matmul(x, w); s = softmax(y, axis=1); return y, s");
  check("x: f32[5,0]; w: f32[0,4]; b: const f32[4] {-1, 0, 1, 2}; y = matmul(x, w); z = add(y, b); r = relu(z); return r");
}

TEST(Pipeline, without_fusion_every_node_is_a_region_and_the_numbers_stay) {
  auto options = untuned();
  options.fuse = false;
  const auto compiled = check("x: f32[6,10]; w: f32[10,12]; b: f32[12]; h = matmul(x, w); a = add(h, b); y = relu(a); return y", options);
  EXPECT_EQ(compiled.report.regions, 3);
}

TEST(Pipeline, a_large_kernel_of_the_baseline_is_chosen_on_fewer_rows_and_computes_all) {
  auto options = untuned();
  options.fuse = false;
  options.fewer_rows_above = 3000;
  const auto compiled = check(
      "x: f32[3,50,40]; m: bool[50,40]; n: const f32[] {-1e9}; s = where(m, x, n); p = softmax(s, axis=2); r = "
      "reduce_sum(p, axes=[0,1,2], keepdims=0); return p, r",
      options);
  ASSERT_EQ(compiled.report.per_region.size(), 3u);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NE(compiled.report.per_region[i].tuning.find("with fewer rows"), std::string::npos) << compiled.report.per_region[i].tuning;
  // A sum over everything has no rows to take from: it is checked as it is.
  EXPECT_EQ(compiled.report.per_region[2].tuning.find("with fewer rows"), std::string::npos) << compiled.report.per_region[2].tuning;
}

// P16: y = y + x in place, with tuning. Tuning runs the kernel many times on buffers of its own, never on the state.
TEST(Pipeline, a_state_that_adds_in_place_is_added_to_once_a_run) {
  const auto graph = ir::parse_or_die("y: f32[64]; x: f32[64]; z = add(y, x); state total: y -> z axis=0 max=64; return z");
  Options options;
  options.budget_seconds = 2;
  options.jobs = 1;
  auto compiled = compile(graph, bench().toolbox(), options);
  ASSERT_TRUE(compiled.ok()) << compiled.error().text();
  runtime::LoadOptions load;
  load.device = bench().device;
  auto program = runtime::Program::from_plan(compiled->plan, load);
  ASSERT_TRUE(program.ok()) << program.error().text();
  auto execution = (*program)->create_execution();
  ASSERT_TRUE(execution.ok());
  HostTensor y(DType::f32, {64}), x(DType::f32, {64}), z(DType::f32, {64});
  for (int i = 0; i < 64; ++i) y.set_double(i, 1), x.set_double(i, 2);
  const auto view = [](HostTensor& t) { return runtime::TensorView{t.mutable_bytes(), t.dtype(), t.extents(), {}}; };
  ASSERT_TRUE((*execution)->run({{"y", view(y)}, {"x", view(x)}}, {{"z", view(z)}}).ok());
  EXPECT_EQ(z.get_double(5), 3);
  ASSERT_TRUE((*execution)->run({{"x", view(x)}}, {{"z", view(z)}}).ok()) << "the state goes on where it was";
  EXPECT_EQ(z.get_double(5), 5);
  EXPECT_EQ(y.get_double(5), 1) << "the caller's data is not touched";
}

// Rows go into a cache where it stands: nothing copies the cache, and who reads the new value reads it there.
TEST(Pipeline, a_cache_takes_rows_in_place) {
  const auto graph = ir::parse_or_die(
      "c: f32[2,8,4]; f: f32[2,1,4]; at: i64[2]; w = tensor_scatter(c, f, at, axis=1); s = reduce_sum(w, "
      "axes=[1], keepdims=0); state cache: c -> w axis=1 max=8; return w, s");
  auto compiled = compile(graph, bench().toolbox(), untuned());
  ASSERT_TRUE(compiled.ok()) << compiled.error().text();
  EXPECT_EQ(compiled->plan.steps.size(), 2U) << "the rows, the sum";
  EXPECT_TRUE(compiled->plan.copies.empty());
  runtime::LoadOptions load;
  load.device = bench().device;
  auto program = runtime::Program::from_plan(compiled->plan, load);
  ASSERT_TRUE(program.ok()) << program.error().text();
  auto execution = (*program)->create_execution();
  ASSERT_TRUE(execution.ok());
  HostTensor fresh(DType::f32, {2, 1, 4}), at(DType::i64, {2}), sum(DType::f32, {2, 4}),
      cache(DType::f32, {2, 8, 4});
  const auto view = [](HostTensor& t) {
    return runtime::TensorView{t.mutable_bytes(), t.dtype(), t.extents(), {}};
  };
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 8; ++i) fresh.set_double(i, step + 1);
    at.set_int(0, step), at.set_int(1, 7 - step);
    ASSERT_TRUE((*execution)
                    ->run({{"f", view(fresh)}, {"at", view(at)}}, {{"s", view(sum)}, {"w", view(cache)}})
                    .ok());
    EXPECT_EQ(sum.get_double(5), (step + 1) * (step + 2) / 2);
  }
  EXPECT_EQ(cache.get_double(2 * 4), 3) << "batch 0, row 2";
  EXPECT_EQ(cache.get_double((8 + 7) * 4), 1) << "batch 1, row 7";
  EXPECT_EQ(cache.get_double((8 + 4) * 4), 0);
}

// Where the old value is a result too, the new one is computed beside it.
TEST(Pipeline, a_cache_whose_old_value_is_a_result_is_not_written_in_place) {
  const auto graph = ir::parse_or_die(
      "c: f32[2,8,4]; f: f32[2,1,4]; at: i64[2]; w = tensor_scatter(c, f, at, axis=1); state cache: c -> w "
      "axis=1 max=8; return w, c");
  auto compiled = compile(graph, bench().toolbox(), untuned());
  ASSERT_TRUE(compiled.ok()) << compiled.error().text();
  EXPECT_EQ(compiled->plan.copies.size(), 2U);
  EXPECT_EQ(compiled->plan.steps.size(), 2U) << "the copy, the rows";
}

// P44: grouped heads with windows; v of key head h is h + 1 and q is 0, so query head i gives i / 4 + 1.
TEST(Pipeline, grouped_query_heads_see_their_own_key_head_under_every_window) {
  for (const char* window : {"window_left=64", "window_right=64", "window_left=64, window_right=64", "causal=1"}) {
    SCOPED_TRACE(window);
    const auto graph = ir::parse_or_die(std::string("q: bf16[1,8,512,64]; k: bf16[1,2,512,64]; v: bf16[1,2,512,64]; o = attention(q, k, v, scale=0.125, ") + window + "); return o");
    auto compiled = compile(graph, bench().toolbox(), untuned());
    ASSERT_TRUE(compiled.ok()) << compiled.error().text();
    auto inputs = validate::make_inputs(graph, 3, validate::InputKind::random);
    const auto random_outputs = run(compiled->plan, inputs);
    const auto wanted = reference::run(graph, inputs);
    const auto comparison = validate::compare("o", random_outputs[0], (*wanted)[0], {});
    EXPECT_TRUE(comparison.agrees) << comparison.detail.text();
    for (int64_t i = 0; i < inputs[0].count(); ++i) inputs[0].set_double(i, 0);
    for (int64_t i = 0; i < inputs[2].count(); ++i) inputs[2].set_double(i, static_cast<double>(i / (512 * 64) + 1));
    const auto found = run(compiled->plan, inputs);
    for (int64_t i = 0; i < found[0].count(); ++i) ASSERT_EQ(found[0].get_double(i), static_cast<double>(i / (512 * 64) / 4 + 1)) << i;
  }
  const auto uneven = ir::parse("q: f32[1,7,8,4]; k: f32[1,2,8,4]; v: f32[1,2,8,4]; o = attention(q, k, v, scale=1.0); return o");
  ASSERT_FALSE(uneven.ok());
  EXPECT_EQ(uneven.error().kind, ErrorKind::user);
}

TEST(Pipeline, a_lock_without_the_kernels_entry_is_a_failed_check_and_never_tunes) {
  auto options = untuned();
  options.lock_file = *make_temp_directory(testing::TempDir(), "rtx-lock-") + "/lock";
  const auto first = ir::parse_or_die("x: f32[3,5]; y = exp(x); return y"), second = ir::parse_or_die("x: f32[3,7]; y = tanh(x); return y");
  ASSERT_TRUE(compile(first, bench().toolbox(), options).ok());
  ASSERT_TRUE(compile(first, bench().toolbox(), options).ok());
  auto refused = compile(second, bench().toolbox(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::check_failed);
}

TEST(Pipeline, an_interrupt_ends_with_130_and_keeps_what_was_tuned) {
  std::atomic<bool> stop{true};
  auto options = untuned();
  options.stop = &stop;
  auto refused = compile(ir::parse_or_die("x: f32[3,11]; y = sqrt(x); return y"), bench().toolbox(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::interrupted);
}

}  // namespace
}  // namespace rtx::compiler

#include "validate/axes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/text.h"
#include "ir/verify.h"
#include "validate/host_device_testing.h"

namespace rtx::validate {
namespace {

// A sample of rows of a body agrees with the same rows of the whole; the sentence says what does not.
std::string sample_against_whole(const std::string& text) {
  const auto graph = ir::parse_or_die(text);
  const auto sample = sample_rows(graph, 7);
  if (!sample) return "no rows";
  if (auto valid = ir::verify(sample->graph); !valid.ok()) return valid.error().text();
  const auto inputs = make_inputs(graph, 1, InputKind::random);
  std::vector<ir::HostTensor> taken;
  for (size_t i = 0; i < inputs.size(); ++i) taken.push_back(take_rows(inputs[i], sample->rows, sample->inputs[i]));
  const auto whole = reference::run(graph, inputs), rows = reference::run(sample->graph, taken);
  if (!whole.ok() || !rows.ok()) return "does not run";
  for (size_t o = 0; o < graph.outputs.size(); ++o) {
    const auto wanted = take_rows(reference::to_host((*whole)[o]), sample->rows, sample->outputs[o]), found = reference::to_host((*rows)[o]);
    if (wanted.extents() != found.extents()) return "other extents";
    for (int64_t i = 0; i < found.count(); ++i) {
      const double w = wanted.get_double(i), f = found.get_double(i);
      if (!(std::abs(w - f) <= 1e-6 * std::abs(w) || (std::isnan(w) && std::isnan(f)))) return "element " + std::to_string(i) + " of output " + std::to_string(o);
    }
  }
  return {};
}

TEST(SampleRows, a_sample_is_what_the_whole_has_there) {
  for (const char* text : {
           "a: f32[300,33]; b: f32[33,20]; c: f32[20]; r: f32[300,20]; m = matmul(a, b); s = add(m, c); g = gelu(s); y = add(g, r); return y",
           "a: f32[33,300]; b: f32[20,33]; m = matmul(a, b, trans_a=1, trans_b=1); return m",
           "a: f32[8,20]; b: f32[20,300]; m = matmul(a, b); return m",  // few rows: columns
           "a: f32[300,3,9]; b: f32[300,9,5]; m = matmul(a, b); return m",
           "a: f32[2,300,24]; b: f32[24,24]; m = matmul(a, b); h = reshape(m): [2,300,4,6]; t = transpose(h, perm=[0,2,1,3]); return t",
           "a: f32[300,12]; m = matmul(a, a, trans_b=1); return m",  // rows meet themselves
           "x: f32[2,300,17]; g: f32[17]; (y, m, v) = layer_norm(x, g, axis=2); return y, m",
           "x: f32[300,17]; s = softmax(x, axis=1); r = reduce_sum(s, axes=[1], keepdims=0); return r, s",
           "x: f32[2,3,300,8]; c: f32[1,300,4]; s: f32[1,300,4]; y = rotary(x, c, s, rotary_dim=8); return y",
           "t: f32[50,9]; i: i64[300]; y = gather(t, i, axis=0); return y",
           "q: f32[1,4,300,16]; k: f32[1,2,40,16]; v: f32[1,2,40,8]; y = attention(q, k, v, scale=0.25); return y",
           "q: f32[1,2,300,16]; k: f32[1,2,310,16]; v: f32[1,2,310,8]; y = attention(q, k, v, scale=0.25, causal=1, causal_offset=10, window_left=40); return y",
           "q: f32[2,2,300,8]; k: f32[2,2,300,8]; v: f32[2,2,300,8]; m: bool[2,1,300,300]; n: i64[2]; e = exp(q); y = attention(e, k, v, m, n, scale=0.25, causal=1); z = neg(y); return z",
           "q: f32[1,2,300,8]; k: f32[1,2,300,8]; v: f32[1,2,300,8]; m: f32[300]; y = attention(q, k, v, m, scale=0.25, causal=1); return y",
       })
    EXPECT_EQ(sample_against_whole(text), "") << text;
}

TEST(SampleRows, rows_that_cannot_be_had_apart_are_not_sampled) {
  for (const char* text : {
           "x: f32[300,300]; y = reduce_sum(x, axes=[0,1], keepdims=0); return y",
           "x: f32[300,8]; y = cumsum(x, axis=0); return y",
           "x: f32[300,8]; s = softmax(x, axis=0); return s",
           "a: f32[300,8]; b: f32[8,8]; m = matmul(a, b); s = softmax(m, axis=0); return s",
           "a: f32[300,8]; r = reshape(a): [100,24]; return r",
           "a: i32[300,8]; b: i32[8,8]; m = matmul(a, b); return m",     // an integer does not show whether it was written
           "a: f32[60,8]; b: f32[8,8]; m = matmul(a, b); return m",      // no fewer
           "a: f32[300,8] strides [1,300]; b: f32[8,8]; m = matmul(a, b); return m",
           "a: f32[300,8]; b: f32[8,8]; m = matmul(a, b); s = reduce_sum(m, axes=[0,1], keepdims=0); return m, s",
       })
    EXPECT_FALSE(sample_rows(ir::parse_or_die(text), 7)) << text;
}

TEST(SampleRows, first_last_and_edges_of_tiles_are_among_at_least_64) {
  const auto sample = sample_rows(ir::parse_or_die("a: f32[1000,8]; b: f32[8,8]; m = matmul(a, b); return m"), 7);
  ASSERT_TRUE(sample);
  EXPECT_GE(sample->rows.size(), 64u);
  for (const int64_t row : {0, 999, 15, 16, 127, 128, 255, 256, 895, 896, 767, 768})
    EXPECT_TRUE(std::find(sample->rows.begin(), sample->rows.end(), row) != sample->rows.end()) << row;
}

TEST(ShorterCompanion, has_fewer_rows_of_the_same_length_with_the_same_remainders) {
  const auto shorter = [](const char* text, double work) {
    const auto out = shorter_companion(ir::parse_or_die(text), work);
    if (!out) return std::string("none");
    EXPECT_TRUE(ir::verify(*out).ok()) << text;
    EXPECT_LE(work_of(*out), work) << text;
    std::string extents;
    for (const auto id : out->inputs) extents += ir::text(out->extents(id));
    return extents;
  };
  EXPECT_EQ(shorter("x: f32[4,32,2048,2048]; s = softmax(x, axis=3); return s", 1 << 25), "[4,32,128,2048]");
  EXPECT_EQ(shorter("x: f32[1,64,8192,8192]; m: bool[8192,8192]; y: f32[]; w = where(m, x, y); return w", 1 << 25), "[1,40,32,8192][32,8192][]");
  EXPECT_EQ(shorter("x: f32[4000,1000]; g: f32[1000]; (y, a, b) = layer_norm(x, g, axis=1); return y", 1e6), "[928,1000][1000]");
  EXPECT_EQ(shorter("x: f32[400,10]; s = softmax(x, axis=1); return s", 4000), "none");             // small already
  EXPECT_EQ(shorter("x: f32[400,400]; t = transpose(x, perm=[1,0]); return t", 1000), "none");      // both are somebody's last
  EXPECT_EQ(shorter("x: f32[400,400]; r = reduce_sum(x, axes=[0], keepdims=0); return r", 1000), "none");
}

TEST(SmallCompanion, keeps_the_remainders_and_nothing_small_has_one) {
  const auto graph = ir::parse_or_die("a: f32[8191,4099]; b: f32[4099,6000]; c: f32[6000]; m = matmul(a, b); y = add(m, c); return y");
  const auto small = small_companion(graph);
  ASSERT_TRUE(small);
  EXPECT_TRUE(ir::verify(*small).ok());
  EXPECT_EQ(small->extents(small->inputs[0]), (std::vector<int64_t>{768 + 8191 % 768, 768 + 4099 % 768}));
  EXPECT_EQ(small->extents(small->outputs[0]), (std::vector<int64_t>{768 + 8191 % 768, 768 + 6000 % 768}));
  EXPECT_LE(work_of(*small), kFullReferenceFlops);
  EXPECT_FALSE(small_companion(*small));
  // Heads, what a reshape splits and constants stay as they are.
  const auto heads = ir::parse_or_die("q: f32[1,32,8000,64]; k: f32[1,8,8000,64]; v: f32[1,8,8000,64]; y = attention(q, k, v, scale=0.125, causal=1); return y");
  const auto fewer = small_companion(heads);
  ASSERT_TRUE(fewer);
  EXPECT_EQ(fewer->extents(fewer->outputs[0]), (std::vector<int64_t>{1, 32, 768 + 8000 % 768, 64}));
}

// y = 2 x on rows of 64, with a fault in one row; the rows are those of the problem that was launched.
int64_t launched_rows = 0;
constexpr int64_t kWidth = 64;
void doubled_rows(void* const* arguments) {
  for (int64_t i = 0; i < launched_rows * kWidth; ++i) static_cast<float*>(arguments[1])[i] = 2 * static_cast<const float*>(arguments[0])[i];
}

std::vector<Fault> check_rows(const ir::Graph& graph, Kernel kernel, bool sampled) {
  HostDevice device(kernel);
  HostModule module;
  backend::KernelPlan plan;
  plan.steps.push_back({"entry", {1, 1, 1}, {1, 1, 1}, 0, {{backend::BufferKind::input, 0}, {backend::BufferKind::output, 0}}});
  launched_rows = graph.extents(graph.outputs[0])[0];
  const auto cases = make_cases(graph, 1, sampled);
  EXPECT_TRUE(cases.ok());
  return check_plan(device, module, plan, graph, *cases, {});
}
const ir::Graph& many_rows() {
  static const auto graph = ir::parse_or_die("x: f32[5000,64]; two: const f32[] {2}; y = mul(x, two); return y");
  return graph;
}
// A row that is in no sample of make_cases(many_rows(), 1).
int64_t unsampled_row() {
  const auto rows = sample_rows(many_rows(), 1)->rows;
  int64_t row = 2000;
  while (std::find(rows.begin(), rows.end(), row) != rows.end()) ++row;
  return row;
}

TEST(CheckSample, a_right_kernel_has_no_faults_and_a_wrong_number_in_a_sampled_row_is_found) {
  EXPECT_TRUE(check_rows(many_rows(), doubled_rows, true).empty());
  const auto faults = check_rows(many_rows(), [](void* const* a) { doubled_rows(a), static_cast<float*>(a[1])[(launched_rows - 1) * kWidth] += 1; }, true);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, Fault::Kind::wrong_numbers);
  EXPECT_NE(faults[0].text.find("sample of rows"), std::string::npos) << faults[0].text;
}

TEST(CheckSample, an_unsampled_row_is_at_least_written_and_finite) {
  auto faults = check_rows(many_rows(), [](void* const* a) { doubled_rows(a), static_cast<float*>(a[1])[unsampled_row() * kWidth + 5] = INFINITY; }, true);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, Fault::Kind::wrong_numbers);
  EXPECT_NE(faults[0].text.find("not finite"), std::string::npos) << faults[0].text;
  faults = check_rows(many_rows(), [](void* const* a) {
    for (int64_t i = 0; i < launched_rows * kWidth; ++i)
      if (i / kWidth != unsampled_row()) static_cast<float*>(a[1])[i] = 2 * static_cast<const float*>(a[0])[i];
  }, true);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, Fault::Kind::unwritten);
}

// 2000 x 2000 is a number in double and none in f16: what overflows there is right to.
TEST(CheckSample, an_unsampled_row_that_overflows_its_type_is_right) {
  const auto graph = ir::parse_or_die("x: f16[5000,64]; k: const f16[] {2000}; y = mul(x, k); return y");
  const auto times = [](void* const* a) {
    ir::HostTensor x(ir::DType::f16, {launched_rows * kWidth}, nullptr, a[0]), y(ir::DType::f16, {launched_rows * kWidth});
    for (int64_t i = 0; i < x.count(); ++i) y.set_double(i, 2000 * x.get_double(i));
    std::memcpy(a[1], y.bytes(), static_cast<size_t>(y.byte_size()));
  };
  const auto faults = check_rows(graph, times, true);
  EXPECT_TRUE(faults.empty()) << faults[0].text;
}

// A finite wrong number in an unsampled row of an inner tile: the sample misses it, and the companion, which has inner tiles and the
// same last tile and is checked in full, does not.
TEST(CheckSample, a_wrong_tile_that_the_sample_misses_is_found_on_the_companion) {
  const auto companion = small_companion(many_rows(), 10000);
  ASSERT_TRUE(companion);
  EXPECT_LT(companion->extents(companion->outputs[0])[0], 200);
  const auto wrong_inside_tiles = [](void* const* a) {
    doubled_rows(a);
    const auto rows = launched_rows == 5000 ? sample_rows(many_rows(), 1)->rows : std::vector<int64_t>{};
    for (int64_t row = 8; row < launched_rows; row += 12)
      if (std::find(rows.begin(), rows.end(), row) == rows.end()) static_cast<float*>(a[1])[row * kWidth + 63] += 1;
  };
  EXPECT_TRUE(check_rows(many_rows(), wrong_inside_tiles, true).empty());
  const auto faults = check_rows(*companion, wrong_inside_tiles, false);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, Fault::Kind::wrong_numbers);
}

}  // namespace
}  // namespace rtx::validate

// Attention by warpgroup products on the emulator (RTX_TEST_GPU=cuda: on a device): every variant agrees with the reference. Problems
// are as small as a variant allows: emulated products are slow.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/caps.h"
#include "backend/cuda/compile_testing.h"
#include "backend/cuda/dialect.h"
#include "ir/text.h"
#include "kernels/attention/attention.h"
#include "kernels/family_testing.h"

namespace rtx::kernels::attention {
namespace {

using testing::TestCase;

std::string small_attention(const std::string& type, int64_t batch, int64_t heads, int64_t key_heads, int64_t queries, int64_t keys, int64_t depth, const std::string& attributes,
                 const std::string& mask = {}) {
  const auto operand = [&](const char* name, int64_t count, int64_t rows) {
    return std::string(name) + ": " + type + "[" + std::to_string(batch) + "," + std::to_string(count) + "," + std::to_string(rows) + "," + std::to_string(depth) + "]; ";
  };
  return operand("q", heads, queries) + operand("k", key_heads, keys) + operand("v", key_heads, keys) + (mask.empty() ? "" : "m: " + mask + "; ") + "a = attention(q, k, v" +
         (mask.empty() ? "" : ", m") + ", " + attributes + "); return a";
}

// What the vendor's compiler says of the same points: an emulator does not see products that it serialises. Empty without one.
std::string objections(const std::vector<TestCase>& cases) {
  namespace cuda = backend::cuda;
  if (!cuda::testing::why_no_nvrtc().empty()) return {};
  const auto compiler = cuda::make_compiler(cuda::testing::options_here());
  const backend::Caps caps = *cuda::caps_of_arch("sm_90a");
  std::string out;
  for (const TestCase& test : cases) {
    const auto problem = Attention::problem(ir::parse_or_die(test.text));
    Params at;
    if (!problem.ok() || !Attention::space(*problem, caps).parse(test.parameters, &at)) return "no point: " + test.parameters;
    const auto plan = Attention::emit(*problem, at, caps, cuda::make_dialect(caps));
    if (!plan.ok()) return plan.error().text();
    if (const auto binary = cuda::testing::compile(*compiler, plan->text, "sm_90a"); !binary.ok()) out += test.text + "\n" + test.parameters + "\n" + binary.error().text() + "\n";
  }
  return out;
}

std::string disagreement(std::vector<TestCase> cases) {
  if (auto out = objections(cases); !out.empty()) return out;
  // Weights are rounded to bf16 before they meet the values; of so few results some are unlucky.
  for (TestCase& test : cases)
    if (test.text.find("bf16") != std::string::npos) test.scale *= 5;
  return testing::check<Attention>(cases, testing::Target::emulated);
}

TEST(AttentionWgmmaGpu, agrees_at_every_head_size) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<TestCase> cases;
  for (const int64_t depth : {24, 32, 40, 64, 80, 96, 128, 192, 256})
    cases.push_back({.text = small_attention(depth % 16 == 8 || depth == 64 ? "f16" : "bf16", 1, 1, 1, 70, 130, depth, "scale=0.1"), .parameters = "mma=2 block_q=64 block_k=64 waves=8 stages=2 turns=0 splits=1"});
  cases.push_back({.text = "q: f16[1,1,65,64]; k: f16[1,1,70,64]; v: f16[1,1,70,128]; a = attention(q, k, v, scale=0.1); return a", .parameters = "mma=2 block_q=64 block_k=80 waves=8 stages=2 turns=0 splits=1"});
  EXPECT_EQ(disagreement(cases), "");
}

// Tiles of one, two and three warpgroups that multiply, with a last tile and a last block that are not full, over several heads.
TEST(AttentionWgmmaGpu, every_tile_agrees) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<TestCase> cases;
  const auto add = [&](const std::string& text, const char* parameters) { cases.push_back({.text = text, .parameters = std::string("mma=2 ") + parameters}); };
  add(small_attention("f16", 1, 2, 1, 200, 300, 64, "scale=0.2, causal=1, causal_offset=100"), "block_q=192 block_k=128 waves=16 stages=2 turns=1 splits=1");
  add(small_attention("bf16", 1, 2, 1, 150, 400, 128, "scale=0.1, causal=1, causal_offset=250"), "block_q=128 block_k=176 waves=12 stages=2 turns=1 splits=1");
  add(small_attention("bf16", 1, 1, 1, 140, 260, 256, "scale=0.1, causal=1"), "block_q=128 block_k=80 waves=12 stages=2 turns=0 splits=1");
  add(small_attention("bf16", 1, 1, 1, 140, 230, 192, "scale=0.1"), "block_q=128 block_k=112 waves=12 stages=2 turns=1 splits=1");
  add(small_attention("bf16", 1, 2, 1, 70, 400, 128, "scale=0.1"), "block_q=64 block_k=64 waves=8 stages=3 turns=0 splits=1");
  add(small_attention("bf16", 1, 2, 1, 70, 700, 64, "scale=0.1, causal=1, causal_offset=630"), "block_q=64 block_k=64 waves=8 stages=2 turns=0 splits=4");
  add(small_attention("bf16", 2, 8, 1, 10, 300, 64, "scale=0.1, causal=1, causal_offset=290"), "block_q=64 block_k=64 waves=8 stages=2 turns=0 splits=1");  // heads share tiles
  EXPECT_EQ(disagreement(cases), "");
}

// The ring and the room for results run on from tile to tile; tiles are dealt by a table where they are uneven.
TEST(AttentionWgmmaGpu, groups_take_several_tiles) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<TestCase> cases;
  for (const char* attributes : {"scale=0.3", "scale=0.3, causal=1"})
    cases.push_back({.text = small_attention("f16", 1, 70, 70, 130, 150, 32, attributes), .parameters = "mma=2 block_q=128 block_k=64 waves=12 stages=2 turns=1 splits=1"});
  EXPECT_EQ(disagreement(cases), "");
}

TEST(AttentionWgmmaGpu, masks_windows_and_caps_agree) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  const std::string tile = "mma=2 block_q=128 block_k=64 waves=12 stages=2 turns=1 splits=1";
  std::vector<TestCase> cases;
  for (const char* mask : {"f32[100,151]", "bool[2,1,100,151]", "f16[1,2,1,151]"}) cases.push_back({.text = small_attention("f16", 2, 2, 1, 100, 151, 32, "scale=0.25", mask), .parameters = tile});
  cases.push_back({.text = small_attention("f16", 1, 2, 2, 140, 200, 32, "scale=2.0, softcap=5.0, causal=1"), .parameters = tile});
  cases.push_back({.text = small_attention("f16", 1, 2, 2, 140, 200, 32, "scale=-0.5"), .parameters = tile});
  for (const char* window : {"window_left=30", "window_right=30", "causal=1, window_left=70", "window_left=3, window_right=5"})
    cases.push_back({.text = small_attention("f16", 1, 1, 1, 200, 200, 32, std::string("scale=0.3, ") + window), .parameters = tile});
  EXPECT_EQ(disagreement(cases), "");
}

// Rows that see no key give zeros, or NaN where asked; a tile of which no row sees any reads one block and hides it.
TEST(AttentionWgmmaGpu, rows_that_see_nothing_give_zero_or_nan) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  const std::string tile = "mma=2 block_q=64 block_k=64 waves=8 stages=2 turns=0 splits=1";
  std::vector<TestCase> cases;
  for (const char* more : {"", ", empty_row_nan=1"}) cases.push_back({.text = small_attention("f16", 1, 1, 1, 150, 70, 32, std::string("scale=0.3, causal=1, causal_offset=-80") + more), .parameters = tile});
  cases.push_back({.text = small_attention("f16", 1, 1, 1, 70, 80, 32, "scale=0.3", "f32[70,1]"),
                   .parameters = tile,
                   .fill = [](size_t input, int64_t i) { return input == 3 ? (i % 2 == 0 ? -INFINITY : 0.0) : std::cos(static_cast<double>(i)); }});
  EXPECT_EQ(disagreement(cases), "");
}

// What lies behind the valid length may be anything, NaN too; it differs from batch to batch.
TEST(AttentionWgmmaGpu, keys_beyond_the_valid_length_do_not_count) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  const auto fill = [](size_t input, int64_t i) {
    constexpr int64_t lengths[] = {3, 0, 64, 200, 129};
    if (input == 3) return static_cast<double>(lengths[i]);
    const int64_t batch = i / (200 * 32), row = i / 32 % 200;
    return input != 0 && row >= lengths[batch] ? NAN : std::sin(static_cast<double>(i));
  };
  std::vector<TestCase> cases;
  for (const char* tile : {"block_q=128 block_k=64 waves=12 stages=2 turns=1 splits=1", "block_q=64 block_k=64 waves=8 stages=2 turns=0 splits=2"})
    for (const char* more : {"", ", causal=1, causal_offset=70"})
      cases.push_back({.text = std::string("q: f16[5,1,130,32]; k: f16[5,1,200,32]; v: f16[5,1,200,32]; n: i64[5]; a = attention(q, k, v, _, n, scale=0.5") + more + "); return a",
                       .parameters = std::string("mma=2 ") + tile,
                       .fill = fill});
  EXPECT_EQ(disagreement(cases), "");
}

// pains P41, P39, P44: exactly 1 at every length; a very low score is a score; each query head gives the v of its key head.
TEST(AttentionWgmmaGpu, exact_numbers_come_out_exactly) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  const std::string tile = "mma=2 block_q=64 block_k=64 waves=8 stages=2 turns=0 splits=1";
  std::vector<TestCase> cases;
  for (const int64_t keys : {1, 63, 65, 127, 129})
    cases.push_back({.text = "q: bf16[1,1,66,32]; k: bf16[1,1," + std::to_string(keys) + ",32]; v: bf16[1,1," + std::to_string(keys) + ",8]; one: const bf16[] {1}; a = attention(q, k, v, scale=1.0); e = equal(a, one); return e",
                     .parameters = tile,
                     .fill = [](size_t input, int64_t) { return input == 2 ? 1.0 : 0.0; }});
  cases.push_back({.text = "q: f16[1,1,66,64]; k: f16[1,1,33,64]; v: f16[1,1,33,8]; a = attention(q, k, v, scale=1.0); return a",
                   .parameters = tile,
                   .fill = [](size_t input, int64_t i) { return input == 2 ? static_cast<double>(i / 8) : i % 64 != 0 ? 0.0 : input == 0 ? -245.0 : 245.0; }});
  cases.push_back({.text = small_attention("f16", 1, 8, 2, 70, 40, 32, "scale=1.0, causal=1"), .parameters = tile, .fill = [](size_t input, int64_t i) { return input == 2 ? static_cast<double>(i / 1280 + 1) : 0.0; }});
  EXPECT_EQ(disagreement(cases), "");
}

TEST(AttentionWgmmaGpu, operands_and_results_stand_anywhere) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  const auto part = [](const char* name, int start) {
    const std::string n(name);
    return n + "s = slice(p, starts=[0,0," + std::to_string(start) + "], steps=[1,1,1]): [2,70,96]; " + n + "r = reshape(" + n + "s): [2,70,3,32]; " + n + " = transpose(" + n + "r, perm=[0,2,1,3]); ";
  };
  const std::string tile = "mma=2 block_q=128 block_k=64 waves=12 stages=2 turns=1 splits=1";
  std::vector<TestCase> cases;
  cases.push_back({.text = "p: f16[2,70,296]; " + part("q", 0) + part("k", 104) + part("v", 200) + "a = attention(q, k, v, scale=0.35, causal=1); t = transpose(a, perm=[0,2,1,3]); y = reshape(t): [2,70,96]; return y",
                   .parameters = tile});
  // Through each thread: a sum on the way out, and rows of an odd width.
  cases.push_back({.text = "q: f16[1,2,70,32]; k: f16[1,2,90,32]; v: f16[1,2,90,32]; x: f16[1,2,70,32]; a = attention(q, k, v, scale=0.35); y = add(a, x); return y", .parameters = tile});
  cases.push_back({.text = "q: f16[1,2,70,32]; k: f16[1,2,90,32]; w: f16[1,2,90,32]; v = slice(w, starts=[0,0,0,0], steps=[1,1,1,1]): [1,2,90,7]; a = attention(q, k, v, scale=0.35); return a", .parameters = tile});
  EXPECT_EQ(disagreement(cases), "");
}

}  // namespace
}  // namespace rtx::kernels::attention

// GPU kernels of the family, in the emulator: every main loop, view and ragged edge against the reference. Emulated sums are slow, so
// extents go just beyond one block.
#include <gtest/gtest.h>

#include "backend/cuda/caps.h"
#include "backend/cuda/dialect.h"
#include "ir/text.h"
#include "kernels/family_testing.h"
#include "kernels/gemm/gemm.h"

namespace rtx::kernels::gemm::gpu {
namespace {

using testing::Target;
using testing::TestCase;

constexpr const char* kMma = "loop=1 block_m=32 block_n=32 block_k=32 waves_m=1 waves_n=1 waves_k=1 stages=3 split=1";
constexpr const char* kMmaWide = "loop=1 block_m=64 block_n=64 block_k=64 waves_m=2 waves_n=2 waves_k=1 stages=3 split=1";
constexpr const char* kScalar = "loop=0 block_m=16 block_n=32 block_k=8 waves_m=1 waves_n=2 waves_k=1 stages=2 split=1";

std::string number(int64_t x) { return std::to_string(x); }

std::string product(const std::string& dtype, int64_t m, int64_t n, int64_t k, int transposed = 0) {
  const auto shape = [&](int64_t r, int64_t c, bool t) { return dtype + "[" + number(t ? c : r) + "," + number(t ? r : c) + "]"; };
  return "a: " + shape(m, k, transposed & 1) + "; b: " + shape(k, n, transposed & 2) + "; y = matmul(a, b, trans_a=" + number(transposed & 1) +
         ", trans_b=" + number(transposed >> 1) + "); return y";
}

std::string check(const std::vector<TestCase>& cases) { return testing::check<Family>(cases, Target::emulated); }

TEST(GemmGpu, extents_around_blocks_are_right_in_every_type) {
  RTX_NEEDS_TARGET(Target::emulated);
  std::vector<TestCase> cases;
  const std::array<int64_t, 3> shapes[] = {{1, 1, 1}, {7, 17, 7}, {17, 64, 64}, {64, 7, 17}, {65, 33, 130}};
  for (const std::string dtype : {"f32", "f64", "i32", "i64", "u32", "u64", "bf16", "f16"})
    for (const auto& [m, n, k] : shapes) cases.push_back({.text = product(dtype, m, n, k)});
  cases.push_back({.text = product("bf16", 127, 130, 257)});
  cases.push_back({.text = product("f32", 130, 127, 64)});
  EXPECT_EQ(check(cases), "");
}

TEST(GemmGpu, all_transposes_of_all_loops) {
  RTX_NEEDS_TARGET(Target::emulated);
  std::vector<TestCase> cases;
  for (int t = 0; t < 4; ++t) {
    cases.push_back({.text = product("bf16", 72, 40, 104, t), .parameters = kMma});       // lines in whole chunks
    cases.push_back({.text = product("f16", 80, 72, 136, t), .parameters = kMmaWide});
    cases.push_back({.text = product("bf16", 33, 35, 37, t), .parameters = kMma});        // lines that are not
    cases.push_back({.text = product("f32", 36, 68, 21, t), .parameters = kScalar});
    cases.push_back({.text = product("f32", 5, 41, 150, t)});
    cases.push_back({.text = product("bf16", 3, 40, 136, t)});
  }
  EXPECT_EQ(check(cases), "");
}

TEST(GemmGpu, few_rows_are_streamed_past_a_b_of_either_layout) {
  RTX_NEEDS_TARGET(Target::emulated);
  const std::string wide = "loop=2 block_m=8 block_k=8 stages=2 waves_m=1 ", half = "loop=2 block_m=16 block_k=32 stages=3 waves_m=1 ";
  std::vector<TestCase> cases;
  for (const std::string point : {"block_n=4 waves_n=1 waves_k=2 split=1", "block_n=16 waves_n=2 waves_k=1 split=1", "block_n=32 waves_n=4 waves_k=2 split=2"}) {
    cases.push_back({.text = product("f32", 3, 37, 700, 2), .parameters = wide + point});
    cases.push_back({.text = product("bf16", 1, 40, 1000, 2), .parameters = half + point});
  }
  for (const std::string point : {"block_n=32 waves_n=1 waves_k=2 split=1", "block_n=64 waves_n=2 waves_k=4 split=3"}) {
    cases.push_back({.text = product("f32", 3, 36, 500, 0), .parameters = wide + point});
    cases.push_back({.text = product("bf16", 8, 75, 501, 1), .parameters = half + point});
    cases.push_back({.text = product("i64", 2, 33, 500, 0), .parameters = wide + point, .unaligned = true});
  }
  EXPECT_EQ(check(cases), "");
}

TEST(GemmGpu, few_rows_are_streamed_by_tensor_cores_past_a_b_of_either_layout) {
  RTX_NEEDS_TARGET(Target::emulated);
  const std::string stream = "loop=4 block_m=16 block_k=32 waves_m=1 ";
  std::vector<TestCase> cases;
  const auto add = [&](const std::string& dtype, int64_t m, int64_t n, int64_t k, int transposed, const std::string& point, bool unaligned = false) {
    cases.push_back({.text = product(dtype, m, n, k, transposed), .parameters = stream + point, .unaligned = unaligned});
  };
  // Along K: 8 to 32 columns a wave; rows that fill no, one and two tiles; ragged columns, depths and parts.
  add("bf16", 1, 40, 1000, 2, "block_n=16 waves_n=2 waves_k=2 stages=4 split=1");
  add("bf16", 8, 37, 136, 2, "block_n=32 waves_n=1 waves_k=4 stages=3 split=1");
  add("f16", 8, 130, 712, 2, "block_n=64 waves_n=2 waves_k=4 stages=2 split=2");
  add("bf16", 17, 33, 72, 2, "block_n=32 waves_n=2 waves_k=2 stages=2 split=1", true);
  add("f16", 9, 40, 264, 2, "block_n=32 waves_n=1 waves_k=4 stages=2 split=1");
  add("f16", 32, 64, 320, 2, "block_n=32 waves_n=1 waves_k=8 stages=2 split=1");
  // Along N: 32 and 64 columns a wave.
  add("bf16", 1, 72, 488, 0, "block_n=64 waves_n=1 waves_k=4 stages=2 split=1");
  add("f16", 16, 40, 136, 0, "block_n=32 waves_n=1 waves_k=4 stages=3 split=1");
  add("bf16", 7, 200, 600, 0, "block_n=128 waves_n=2 waves_k=4 stages=2 split=3");
  add("bf16", 31, 24, 72, 0, "block_n=64 waves_n=2 waves_k=2 stages=2 split=1", true);
  cases.push_back({.text = "a: bf16[3,5,72]; b: bf16[3,40,72]; c: bf16[40]; y = matmul(a, b, trans_b=1); z = add(y, c); g = gelu(z); return g",
                   .parameters = stream + "block_n=16 waves_n=2 waves_k=2 stages=2 split=1"});
  EXPECT_EQ(check(cases), "");
  const backend::Caps caps = *backend::cuda::caps_of_arch("sm_90a");
  for (const std::string& text : {product("bf16", 33, 64, 64, 2), product("f32", 4, 64, 64, 2), product("bf16", 4, 64, 60, 2), product("bf16", 4, 60, 64, 0), product("bf16", 4, 64, 64, 1)}) {
    auto problem = Family::problem(ir::parse_or_die(text));
    const auto space = Family::space(*problem, caps);
    Params x = space.preferred();
    x.loop = int64_t(Loop::mma_stream);
    EXPECT_EQ(space.broken_rule(x), "tensor cores are streamed past by at most 32 rows of A, lines of A and B in whole pieces of 8") << text;
  }
}

TEST(GemmGpu, no_extent_is_special) {
  RTX_NEEDS_TARGET(Target::emulated);
  std::vector<TestCase> cases;
  for (const std::string dtype : {"f32", "bf16"})
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{0, 7, 7}, {7, 0, 7}, {7, 9, 0}, {0, 0, 0}, {1, 7, 1}})
      cases.push_back({.text = "a: " + dtype + "[" + number(m) + "," + number(k) + "]; b: " + dtype + "[" + number(k) + "," + number(n) + "]; c: " + dtype + "[" + number(n) +
                               "]; y = matmul(a, b); z = add(y, c); r = relu(z); return r"});
  EXPECT_EQ(check(cases), "");
}

TEST(GemmGpu, inputs_may_begin_at_any_element_and_views_have_any_strides) {
  RTX_NEEDS_TARGET(Target::emulated);
  EXPECT_EQ(check({
                {.text = product("bf16", 40, 40, 72), .parameters = kMma, .unaligned = true},
                {.text = product("f16", 40, 40, 72, 3), .parameters = kMma, .unaligned = true},
                {.text = product("f32", 20, 36, 20), .parameters = kScalar, .unaligned = true},
                {.text = product("bf16", 2, 40, 300, 2), .unaligned = true},
                {.text = "a: f16[17,19] strides [20,1] offset 1; b: f16[19,33]; y = matmul(a, b); return y", .parameters = kMma, .unaligned = true},
                {.text = "a: bf16[40,48] strides [64,1] offset 8; b: bf16[48,40] strides [1,56] offset 16; y = matmul(a, b); return y", .parameters = kMma},
                {.text = "a: bf16[9,16] strides [32,2]; b: bf16[16,10] strides [30,3] offset 2; y = matmul(a, b); return y", .parameters = kMma},
                {.text = "a: f32[9,16] strides [16,2]; b: f32[16,10] strides [30,3] offset 2; y = matmul(a, b); return y"},
                {.text = "a: bf16[33,40] strides [0,1]; b: bf16[40,33] strides [0,1]; y = matmul(a, b); return y", .parameters = kMma},
            }),
            "");
}

TEST(GemmGpu, batches_broadcast_in_either_operand) {
  RTX_NEEDS_TARGET(Target::emulated);
  EXPECT_EQ(check({
                {.text = "a: bf16[2,3,5,24]; b: bf16[3,24,9]; y = matmul(a, b); return y"},
                {.text = "a: bf16[5,7]; b: bf16[2,3,7,9]; y = matmul(a, b); return y", .parameters = kMma},
                {.text = "a: f32[2,1,5,7]; b: f32[1,3,9,7]; y = matmul(a, b, trans_b=1); return y"},
                {.text = "x: bf16[2,6,32]; y: bf16[2,6,32]; q = reshape(x): [2,6,4,8]; k = reshape(y): [2,6,4,8]; qt = transpose(q, perm=[0,2,1,3]);"
                         " kt = transpose(k, perm=[0,2,3,1]); s = matmul(qt, kt); return s", .parameters = kMma},
            }),
            "");
}

TEST(GemmGpu, an_epilogue_adds_multiplies_moves_and_casts) {
  RTX_NEEDS_TARGET(Target::emulated);
  const std::string split = "loop=1 block_m=32 block_n=32 block_k=32 waves_m=1 waves_n=1 waves_k=1 stages=3 split=2";
  std::vector<TestCase> cases = {
      {.text = "a: f32[12,24]; b: f32[24,33]; r: f32[12,33]; y = matmul(a, b); g = gelu(y); z = add(g, r); return z"},
      {.text = "a: bf16[12,24]; b: bf16[24,33]; s: const f32[] {0.125}; y = matmul(a, b); z = cast(y): f32; u = mul(z, s); return u", .parameters = kMma},
      {.text = "a: f32[12,24]; b: f32[24,33]; m: bool[12,33]; o: const f32[] {-1}; y = matmul(a, b); w = where(m, y, o); return w"},
      {.text = "a: bf16[1,12,24]; b: bf16[24,32]; c: bf16[32]; y = matmul(a, b); z = add(y, c); r = reshape(z): [1,12,4,8];"
               " t = transpose(r, perm=[0,2,1,3]); return t", .parameters = kMma},
  };
  for (const std::string& parameters : {std::string(kMma), split})
    cases.push_back({.text = "a: bf16[40,160]; b: bf16[160,72]; c: bf16[72]; u: bf16[40,72]; y = matmul(a, b); z = add(y, c); s = silu(z); g = mul(s, u); return g, z",
                     .parameters = parameters});
  EXPECT_EQ(check(cases), "");
}

TEST(GemmGpu, parameters_of_one_numerics_class_give_the_same_bits) {
  RTX_NEEDS_TARGET(Target::emulated);
  const auto check = [](const std::string& text, size_t limit) {
    return testing::check_candidates(*erase<Family>(), TestCase{.text = text}, limit, Target::emulated);
  };
  EXPECT_EQ(check("a: bf16[70,200]; b: bf16[200,66]; y = matmul(a, b); g = relu(y); return g", 6), "");
  EXPECT_EQ(check("a: f32[34,600]; b: f32[600,20]; y = matmul(a, b); return y", 6), "");
}

TEST(GemmGpu, sums_that_cancel_stay_exact_in_split_parts_too) {
  RTX_NEEDS_TARGET(Target::emulated);
  // A = 1, B = +1 in one half of K and -1 in the other but for one 2: exactly 1; bf16 partial sums would give 0.
  const auto fill = [](size_t input, int64_t index) { return input == 0 ? 1.0 : index / 8 == 0 ? 2.0 : index / 8 < 512 ? 1.0 : -1.0; };
  for (const std::string parameters : {"loop=1 block_m=16 block_n=32 block_k=32 stages=3 waves_m=1 waves_n=1 waves_k=1 split=2", "loop=2 block_n=32 waves_m=1 waves_n=1 waves_k=2 split=2"})
    EXPECT_EQ(check({{.text = "a: bf16[2,1024]; b: bf16[1024,8]; y = matmul(a, b); return y", .parameters = parameters, .fill = fill}}), "") << parameters;
}

TEST(GemmGpu, nan_and_infinity_reach_their_own_rows_and_columns_only) {
  RTX_NEEDS_TARGET(Target::emulated);
  EXPECT_EQ(check({
                {.text = "a: f32[20,1]; b: f32[1,20]; y = matmul(a, b); return y", .special = true},
                {.text = "a: bf16[33,4]; b: bf16[4,35]; y = matmul(a, b); z = relu(y); return z", .parameters = kMma, .special = true},
            }),
            "");
}

TEST(GemmGpu, the_preferred_point_is_legal_and_rules_name_what_they_exclude) {
  for (const auto& arch : backend::cuda::known_arches()) {
    const backend::Caps caps = *backend::cuda::caps_of_arch(arch);
    for (const std::string dtype : {"bf16", "f32", "i64"})
      for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {1, 4096, 4096}, {4096, 4096, 4096}, {5, 3, 100000}, {64, 128, 65536}}) {
        auto problem = Family::problem(ir::parse_or_die(product(dtype, m, n, k)));
        ASSERT_TRUE(problem.ok());
        const auto space = Family::space(*problem, caps);
        EXPECT_EQ(space.broken_rule(space.preferred()), "") << dtype << " " << m << "x" << n << "x" << k << " " << arch;
      }
    auto problem = Family::problem(ir::parse_or_die(product("bf16", 4096, 4096, 4096)));
    const auto space = Family::space(*problem, caps);
    Params x = space.preferred();
    EXPECT_EQ(Loop(x.loop), caps.has("wgmma") ? Loop::wgmma : Loop::mma) << arch;
    x = Params{.loop = int64_t(Loop::mma), .block_m = 64, .block_n = 64, .block_k = 32, .stages = 3};
    const Params tensor = x;
    EXPECT_EQ(space.broken_rule(x), "") << arch;
    x.block_m = x.block_n = 256, x.waves_m = x.waves_n = 4, x.block_k = 128, x.stages = 4;
    EXPECT_EQ(space.broken_rule(x), "scratch fits what a group may have") << arch;
    x = tensor;
    x.loop = int64_t(Loop::stream);
    EXPECT_EQ(space.broken_rule(x), "B is streamed past at most 8 rows of A, along the axis on which it is contiguous");
    x = tensor;
    x.split = 63, x.block_k = 64;
    EXPECT_EQ(space.broken_rule(x), "every part of K has at least 64 elements");
  }
  backend::Caps plain = *backend::cuda::caps_of_arch("sm_80");
  plain.features.erase("mma");
  auto problem = Family::problem(ir::parse_or_die(product("bf16", 64, 64, 64)));
  EXPECT_EQ(Loop(Family::space(*problem, plain).preferred().loop), Loop::scalar);
}

TEST(GemmGpu, split_sums_are_f32_in_workspace_and_another_class) {
  const backend::Caps caps = *backend::cuda::caps_of_arch("sm_90a");
  auto problem = Family::problem(ir::parse_or_die(product("bf16", 64, 128, 65536)));
  ASSERT_TRUE(problem.ok());
  Params x = Family::space(*problem, caps).preferred();
  EXPECT_GT(x.split, 1);
  const auto dialect = backend::cuda::make_dialect(caps);
  auto split = Family::emit(*problem, x, caps, dialect);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->steps.size(), 2u);
  EXPECT_EQ(split->workspace_bytes, (std::vector<int64_t>{x.split * 64 * 128 * 4}));
  x.split = 1;
  auto whole = Family::emit(*problem, x, caps, dialect);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->steps.size(), 1u);
  EXPECT_NE(whole->numerics_class, split->numerics_class);
}

}  // namespace
}  // namespace rtx::kernels::gemm::gpu

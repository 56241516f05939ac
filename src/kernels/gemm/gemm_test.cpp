#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "kernels/family_testing.h"

namespace rtx::kernels::gemm {
namespace {

using testing::TestCase;

std::string number(int64_t x) { return std::to_string(x); }

std::string product(const std::string& dtype, int64_t m, int64_t n, int64_t k, bool trans_a = false, bool trans_b = false) {
  const auto shape = [&](int64_t r, int64_t c, bool t) { return dtype + "[" + number(t ? c : r) + "," + number(t ? r : c) + "]"; };
  return "a: " + shape(m, k, trans_a) + "; b: " + shape(k, n, trans_b) + "; y = matmul(a, b, trans_a=" + number(trans_a) +
         ", trans_b=" + number(trans_b) + "); return y";
}

std::vector<TestCase> cases(const std::vector<std::string>& texts) {
  std::vector<TestCase> out;
  for (const auto& text : texts) out.push_back({.text = text});
  return out;
}

TEST(Gemm, extents_around_tiles_and_vectors_are_right_in_every_type) {
  for (const std::string dtype : {"f32", "f64", "f16", "bf16", "i32", "u64"}) {
    std::vector<std::string> texts;
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {13, 33, 7}, {17, 49, 31}, {128, 130, 5}, {3, 257, 300}})
      texts.push_back(product(dtype, m, n, k));
    EXPECT_EQ(testing::check<Family>(cases(texts)), "") << dtype;
  }
}

TEST(Gemm, all_four_transposes_agree_with_the_reference) {
  std::vector<std::string> texts;
  for (int t = 0; t < 4; ++t) texts.push_back(product("f32", 29, 37, 530, t & 1, t & 2)), texts.push_back(product("bf16", 14, 16, 40, t & 1, t & 2));
  EXPECT_EQ(testing::check<Family>(cases(texts)), "");
}

TEST(Gemm, zero_and_one_are_ordinary_extents_and_no_k_leaves_the_epilogue) {
  std::vector<std::string> texts;
  for (int64_t m : {0, 1, 7})
    for (int64_t n : {0, 1, 7})
      for (int64_t k : {0, 1, 7})
        texts.push_back("a: f32[" + number(m) + "," + number(k) + "]; b: f32[" + number(k) + "," + number(n) + "]; c: f32[" + number(n) +
                        "]; y = matmul(a, b); z = add(y, c); r = relu(z); return r");
  texts.push_back("a: f32[0,3,4]; b: f32[0,4,5]; y = matmul(a, b); return y");
  EXPECT_EQ(testing::check<Family>(cases(texts)), "");
}

TEST(Gemm, every_parameter_gives_the_same_bits) {
  EXPECT_EQ(testing::check_candidates<Family>("a: f32[45,700]; b: f32[700,67]; y = matmul(a, b); g = gelu(y); return g", 10), "");
  EXPECT_EQ(testing::check_candidates<Family>("a: f16[2,30,40]; b: f16[2,50,40]; y = matmul(a, b, trans_b=1); return y", 6), "");
}

TEST(Gemm, a_few_rows_streamed_past_b_give_the_bits_of_the_tiled_product) {
  EXPECT_EQ(testing::check_candidates<Family>("a: f32[3,70]; b: f32[70,133]; c: f32[133]; y = matmul(a, b); z = add(y, c); return z", 14), "");
  EXPECT_EQ(testing::check_candidates<Family>("a: bf16[2,1,19]; b: bf16[2,19,40]; y = matmul(a, b); return y", 10), "");
}

TEST(Gemm, batches_broadcast_in_either_operand_and_may_be_joined_with_the_rows) {
  EXPECT_EQ(testing::check<Family>(cases({
                "a: f32[2,3,5,7]; b: f32[7,9]; y = matmul(a, b); return y",
                "a: f32[2,3,5,7]; b: f32[3,7,9]; y = matmul(a, b); return y",
                "a: f32[5,7]; b: f32[2,3,7,9]; y = matmul(a, b); return y",
                "a: f32[2,1,5,7]; b: f32[1,3,9,7]; y = matmul(a, b, trans_b=1); return y",
                "a: f32[4,6,5]; b: f32[6,9]; c: f32[4,1,9]; y = matmul(a, b, trans_a=1); z = add(y, c); return z",
            })),
            "");
}

TEST(Gemm, strided_and_shifted_views_are_read_and_written_where_they_are) {
  EXPECT_EQ(testing::check<Family>({
                {.text = "a: f16[17,19] strides [20,1] offset 1; b: f16[19,33]; y = matmul(a, b); return y", .unaligned = true},
                {.text = "a: f32[7,5] strides [1,7]; b: f32[5,40] strides [1,5]; y = matmul(a, b); return y", .unaligned = true},
                {.text = "a: f32[7,5]; b: f32[5,40]; c: f32[7,40] strides [0,1]; y = matmul(a, b); z = add(y, c); return z", .unaligned = true},
                {.text = "a: f32[9,16] strides [16,2]; b: f32[16,10] strides [30,3] offset 2; y = matmul(a, b); return y"},
            }),
            "");
}

TEST(Gemm, views_of_an_operand_are_folded_into_its_strides) {
  EXPECT_EQ(testing::check<Family>(cases({
                "x: f32[2,6,4,8]; w: f32[2,4,8,5]; t = transpose(x, perm=[0,2,1,3]); y = matmul(t, w); return y",
                "x: f32[2,6,32]; y: f32[2,6,32]; q = reshape(x): [2,6,4,8]; k = reshape(y): [2,6,4,8]; qt = transpose(q, perm=[0,2,1,3]);"
                " kt = transpose(k, perm=[0,2,3,1]); s = matmul(qt, kt); return s",
            })),
            "");
}

TEST(Gemm, an_epilogue_may_move_scale_select_and_cast) {
  EXPECT_EQ(testing::check<Family>(cases({
                "a: f32[1,12,24]; b: f32[24,32]; c: f32[32]; y = matmul(a, b); z = add(y, c); r = reshape(z): [1,12,4,8];"
                " t = transpose(r, perm=[0,2,1,3]); return t",
                "a: bf16[12,24]; b: bf16[24,33]; s: const f32[] {0.125}; y = matmul(a, b); z = cast(y): f32; u = mul(z, s); return u",
                "a: f32[12,24]; b: f32[24,33]; m: bool[12,33]; o: const f32[] {-1}; y = matmul(a, b); w = where(m, y, o); return w",
                "a: f32[12,24]; b: f32[24,33]; r: f32[12,33]; y = matmul(a, b); g = gelu(y, tanh=1); s = silu(g); z = add(s, r); return z",
            })),
            "");
}

TEST(Gemm, sums_that_cancel_stay_exact_because_partial_sums_are_f32) {
  // A = 1, B = +1 then -1, its first element 2: exactly 1 everywhere; bf16 partial sums would give 0.
  ir::Graph body = ir::parse_or_die("a: bf16[64,8192]; b: bf16[8192,64]; y = matmul(a, b); return y");
  auto problem = Family::problem(body);
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(problem->arithmetic, ir::DType::f32);
  EXPECT_EQ(Family::tolerance(*problem).terms, 8192);
  EXPECT_EQ(testing::check<Family>({{.text = "a: bf16[64,8192] strides [0,0]; b: bf16[8192,64] strides [0,1]; y = matmul(a, b); return y", .low = 1, .high = 1}}), "");
}

TEST(Gemm, nan_and_infinity_of_the_operands_reach_the_result_and_nothing_else_does) {
  EXPECT_EQ(testing::check<Family>({
                {.text = "a: f64[128,4]; b: f64[4,128]; y = matmul(a, b); z = relu(y); return z", .special = true},
                {.text = "a: f32[130,1]; b: f32[1,130]; y = matmul(a, b); return y", .special = true},
            }),
            "");
}

TEST(Gemm, a_constant_b_is_packed_once_and_another_b_in_every_run) {
  ir::Graph body = ir::parse_or_die("a: f32[128,384]; b: f32[384,384]; y = matmul(a, b); return y");
  backend::Caps caps;
  caps.vector_bits = 256;
  codegen::Dialect dialect;
  dialect.preludes = {"backend/cpu/prelude.h", "codegen/row.inc.h"};
  auto per_run = Family::problem(body);
  ASSERT_TRUE(per_run.ok());
  const Params panels{.mr = 6, .vectors = 2, .mc = 4, .nc = 4, .kc = 256, .pack_a = 0, .b_source = 0};
  auto plan = Family::emit(*per_run, panels, caps, dialect);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->prepare.size(), 0u);
  EXPECT_EQ(plan->steps.size(), 2u);
  EXPECT_EQ(plan->workspace_bytes, (std::vector<int64_t>{384 * 384 * 4}));
  body.value(body.inputs[1]).weight = true;
  auto constant = Family::problem(body);
  ASSERT_TRUE(constant.ok());
  plan = Family::emit(*constant, panels, caps, dialect);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->prepare.size(), 1u);
  EXPECT_EQ(plan->steps.size(), 1u);
  EXPECT_EQ(plan->prepared_bytes, (std::vector<int64_t>{384 * 384 * 4}));
  EXPECT_NE(Family::key(*constant), Family::key(*per_run));
}

TEST(Gemm, a_constant_b_gives_what_any_b_gives) {
  EXPECT_EQ(testing::check<Family>(cases({
                "a: f32[2,9,70]; b: f32[70,49] weight; c: f32[49] weight; y = matmul(a, b); z = add(y, c); return z",
                "a: bf16[3,70]; b: bf16[49,70] weight; y = matmul(a, b, trans_b=1); return y",
                "a: f32[3,5,20]; b: f32[3,20,33] weight; y = matmul(a, b); return y",
                "a: f32[2,3,5,20]; b: f32[2,1,20,33] weight; y = matmul(a, b); return y",
            })),
            "");
}

TEST(Gemm, the_preferred_point_is_legal_and_rules_name_what_they_exclude) {
  for (const auto& [bits, registers] : std::vector<std::pair<int, int>>{{128, 16}, {256, 16}, {512, 32}}) {
    backend::Caps caps;
    caps.vector_bits = bits;
    caps.vector_registers = registers;
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {1, 4096, 4096}, {1024, 1024, 1024}, {5, 3, 100000}, {128, 384, 1536}}) {
      auto problem = Family::problem(ir::parse_or_die(product("f32", m, n, k)));
      ASSERT_TRUE(problem.ok());
      const auto space = Family::space(*problem, caps);
      EXPECT_EQ(space.broken_rule(space.preferred()), "") << m << "x" << n << "x" << k << " " << bits;
      Params wide = space.preferred();
      wide.mr = registers;
      EXPECT_EQ(space.broken_rule(wide), "accumulators, one row of B and one element of A fit the registers");
    }
  }
}

TEST(Gemm, regions_it_cannot_compute_are_refused_with_the_reason) {
  const auto family = erase<Family>();
  const auto refused = [&](const std::string& text, const std::string& reason) {
    const std::string why = testing::refusal(*family, text);
    EXPECT_NE(why.find(reason), std::string::npos) << text << "\n" << why;
  };
  refused("a: f32[4,4]; b: f32[4,4]; y = matmul(a, b); z = matmul(y, b); return z", "two matrix products");
  refused("a: f32[4,4]; y = relu(a); return y", "no matrix product");
  refused("a: f32[4,4]; b: f32[4,4]; e = exp(a); y = matmul(e, b); return y", "not a plain view");
  refused("a: f32[9,4]; i: i64[4]; b: f32[4,4]; g = gather(a, i, axis=0); y = matmul(g, b); return y", "view of an input");
  refused("a: f32[4,4]; b: f32[4,4]; y = matmul(a, b); s = softmax(y, axis=1); return s", "softmax");
}

}  // namespace
}  // namespace rtx::kernels::gemm

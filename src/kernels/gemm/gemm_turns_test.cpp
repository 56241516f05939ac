// Columns that take turns, 8 of one factor and 8 of the other: results join two sums of one row, on a CPU and by every loop of GPUs
// (those on tensor views stand in tests/shrunken/gemm).
#include <gtest/gtest.h>

#include "ir/text.h"
#include "kernels/family_testing.h"
#include "kernels/gemm/gemm.h"

namespace rtx::kernels::gemm {
namespace {

using testing::Target;
using testing::TestCase;

// act(first half) * second half of x [m, k] times b [k, 2 columns]; `bias` on the product.
std::string turns(const std::string& type, const std::string& m, int64_t k, int64_t columns, const std::string& activation = "silu", bool bias = false, bool trans_b = false) {
  const auto n = [](int64_t x) { return std::to_string(x); };
  const auto factor = [&](const char* name, const char* part) {
    return std::string(name) + "s = slice(r, starts=[0,0," + part + ",0], steps=[1,1,1,1]): [" + m + "," + n(columns / 8) + ",1,8]; " + name + " = reshape(" + name + "s): [" + m + "," + n(columns) + "]; ";
  };
  return "x: " + type + "[" + m + "," + n(k) + "]; b: " + type + "[" + (trans_b ? n(2 * columns) + "," + n(k) : n(k) + "," + n(2 * columns)) + "]; " + (bias ? "c: " + type + "[" + n(2 * columns) + "]; " : "") +
         "p = matmul(x, b, trans_b=" + (trans_b ? "1" : "0") + "); " + (bias ? "q = add(p, c); " : "") + "r = reshape(" + (bias ? "q" : "p") + "): [" + m + "," + n(columns / 8) + ",2,8]; " + factor("g", "0") +
         factor("u", "1") + "a = " + activation + "(g); z = mul(a, u); return z";
}

TEST(GemmTurns, both_sums_of_a_result_are_in_one_place) {
  const auto p = Family::problem(ir::parse_or_die(turns("f16", "5", 24, 40)));
  ASSERT_TRUE(p.ok()) << p.error().text();
  EXPECT_TRUE(p->in_turn);
  EXPECT_EQ(p->n, 80);
  EXPECT_EQ(p->result_columns(), 40);
  EXPECT_FALSE(Family::problem(ir::parse_or_die("x: f16[5,24]; b: f16[24,80]; y = matmul(x, b); return y"))->in_turn);
}

// Halves of the columns would be far apart, and other turns than 8 are nobody's.
TEST(GemmTurns, other_orders_are_refused) {
  EXPECT_NE(testing::refusal(*erase<Family>(), "x: f32[5,24]; b: f32[24,80]; p = matmul(x, b); g = slice(p, starts=[0,0], steps=[1,1]): [5,40]; u = slice(p, starts=[0,40], steps=[1,1]): [5,40];"
                                               " a = silu(g); z = mul(a, u); return z"),
            "");
  EXPECT_NE(testing::refusal(*erase<Family>(), "x: f32[5,24]; b: f32[24,80]; p = matmul(x, b); r = reshape(p): [5,10,2,4]; gs = slice(r, starts=[0,0,0,0], steps=[1,1,1,1]): [5,10,1,4]; g = reshape(gs): [5,40];"
                                               " us = slice(r, starts=[0,0,1,0], steps=[1,1,1,1]): [5,10,1,4]; u = reshape(us): [5,40]; a = silu(g); z = mul(a, u); return z"),
            "");
}

TEST(GemmTurns, agree_on_a_cpu) {
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "f16", "bf16"})
    for (const char* m : {"1", "6", "33"})
      for (const int64_t columns : {8, 24, 136}) cases.push_back({.text = turns(type, m, 19, columns, "silu", columns == 24, columns == 136)});
  cases.push_back({.text = turns("f32", "7", 300, 48, "gelu")});
  EXPECT_EQ(testing::check<Family>(cases), "");
  EXPECT_EQ(testing::check_candidates<Family>(turns("f32", "9", 70, 40), 10), "");
}

TEST(GemmTurns, agree_on_a_gpu_by_every_loop_without_views) {
  RTX_NEEDS_TARGET(Target::emulated);
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "f16", "bf16"}) cases.push_back({.text = turns(type, "18", 24, 40, "silu", true)});
  cases.push_back({.text = turns("f32", "33", 19, 24), .parameters = "loop=0 block_m=32 block_n=32 block_k=8 waves_m=2 waves_n=2 waves_k=1 split=1 stages=2"});
  cases.push_back({.text = turns("f32", "3", 200, 24), .parameters = "loop=2 block_n=16 waves_m=1 waves_n=2 waves_k=2 split=1 stages=2"});
  cases.push_back({.text = turns("f16", "40", 520, 72, "silu", false, true), .parameters = "loop=1 block_m=32 block_n=64 block_k=32 waves_m=1 waves_n=2 waves_k=1 split=2 stages=3"});
  cases.push_back({.text = turns("bf16", "12", 256, 40, "gelu", true, true), .parameters = "loop=4 block_m=16 block_k=32 block_n=32 waves_m=1 waves_n=2 waves_k=2 split=1 stages=2"});
  for (auto& test : cases)
    if (!test.parameters.empty()) {
      const auto p = Family::problem(ir::parse_or_die(test.text));
      ASSERT_TRUE(p.ok());
    }
  EXPECT_EQ(testing::check<Family>(cases, Target::emulated), "");
}

}  // namespace
}  // namespace rtx::kernels::gemm

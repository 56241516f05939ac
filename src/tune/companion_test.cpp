#include "tune/companion.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/cpu/compile.h"
#include "backend/cpu/device.h"
#include "backend/cpu/dialect.h"
#include "ir/text.h"
#include "tune/tune.h"

namespace rtx::tune {
namespace {

backend::Device& device() {
  static const auto made = backend::cpu::make_device(2);
  return *made;
}
backend::Compiler& compiler() {
  static const auto made = [] {
    backend::cpu::CompilerOptions options;
    const char* path = std::getenv("PATH");
    options.path = path ? path : "/usr/bin:/bin";
    return backend::cpu::make_compiler(options);
  }();
  return *made;
}

struct Problem {
  ir::Graph body;
  std::unique_ptr<kernels::BoundProblem> bound;
  Problem(const char* family, const char* text) : body(ir::parse_or_die(text)), bound(*kernels::family(family)->bind(body)) {}
};

const char* kGemm = "a: f32[500,301]; b: f32[301,203]; c: f32[203]; m = matmul(a, b); y = add(m, c); return y";
const char* kAttention = "q: f32[1,2,400,32]; k: f32[1,2,400,32]; v: f32[1,2,400,32]; y = attention(q, k, v, scale=0.2, causal=1); return y";

TEST(Companion, a_large_problem_is_sampled_and_its_candidates_pass_on_the_companion_too) {
  for (const auto& [family, body] : {std::pair("gemm", kGemm), std::pair("attention", kAttention)}) {
    Problem problem(family, body);
    auto evaluator = make_in_process_evaluator(compiler(), device(), backend::cpu::make_dialect(device().caps()), 1, 0, 1e6);
    const auto candidates = problem.bound->candidates(device().caps());
    ASSERT_FALSE(candidates.empty());
    const auto outcome = evaluator->evaluate(*problem.bound, problem.body, candidates.front(), false, 60);
    EXPECT_TRUE(std::holds_alternative<Measured>(outcome)) << family << ": " << tune::text(outcome);
    evaluator->finish();
  }
}

// What the checks were, in order.
std::vector<Check> checks_of(const Problem& problem, double full_flops, Check fails) {
  Checks checks(compiler(), device().caps(), backend::cpu::make_dialect(device().caps()), 0, full_flops);
  checks.prepare(*problem.bound, problem.body);
  std::vector<Check> seen;
  const auto parameters = problem.bound->candidates(device().caps()).front().parameters;
  checks.run(*problem.bound, problem.body, {}, parameters, false, [&](Check check, const auto& bound, const ir::Graph& body, const Artefact& artefact, bool) -> Outcome {
    seen.push_back(check);
    EXPECT_EQ(check == Check::companion, &bound != problem.bound.get());
    EXPECT_EQ(check == Check::companion, !artefact.plan.text.empty());
    EXPECT_EQ(check == Check::companion, body.extents(body.outputs[0]) != problem.body.extents(problem.body.outputs[0]));
    if (check == fails) return WrongResult{"planted"};
    return Measured{};
  });
  return seen;
}

TEST(Companion, a_candidate_that_is_wrong_on_the_companion_is_not_tried_further) {
  Problem problem("gemm", kGemm);
  EXPECT_EQ(checks_of(problem, 1e6, Check::full), (std::vector<Check>{Check::companion, Check::sampled}));
  EXPECT_EQ(checks_of(problem, 1e6, Check::companion), (std::vector<Check>{Check::companion}));
  EXPECT_EQ(checks_of(problem, 20e9, Check::full), (std::vector<Check>{Check::full}));
}

}  // namespace
}  // namespace rtx::tune

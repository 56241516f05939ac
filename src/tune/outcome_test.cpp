#include "tune/outcome.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tune/evaluator.h"
#include "tune/frames.h"

namespace rtx::tune {
namespace {

TEST(Outcome, every_kind_survives_the_way_between_worker_and_tuner) {
  const Outcome all[] = {Measured{1.5, 1.25, 2, 7}, Rejected{"rule"},       CompileFailed{"log"}, CompileRejected{"k spills: 976 bytes stored"},
                         WrongResult{"numbers"},    TimedOut{2.5},          Crashed{"signal"}};
  for (const auto& outcome : all) {
    const Outcome back = outcome_from_json(nlohmann::json::parse(to_json(outcome).dump()));
    EXPECT_EQ(back.index(), outcome.index());
    EXPECT_EQ(text(back), text(outcome));
  }
  const Outcome unmeasured = WrongResult{"cannot allocate 8 bytes", true};
  EXPECT_TRUE(std::get<WrongResult>(outcome_from_json(to_json(unmeasured))).no_memory);
  EXPECT_FALSE(std::get<WrongResult>(outcome_from_json(to_json(all[4]))).no_memory);
}

TEST(Outcome, a_plans_launches_reach_the_worker_with_their_views) {
  backend::KernelPlan plan;
  plan.name = "viewed";
  backend::Launch launch;
  launch.entry = "viewed";
  launch.scratch_bytes = 4096;
  launch.arguments = {{backend::BufferKind::input, 1}, {backend::BufferKind::output, 0}};
  launch.views = {{1, backend::ViewElement::bf16, {64, 3, 2}, {128, 384}, {64, 3, 1}, 128, 32}, {0, backend::ViewElement::tf32, {8, 4}, {32}, {8, 2}, 0, 0}};
  plan.steps = {launch};
  const auto back = plan_from_json(nlohmann::json::from_cbor(nlohmann::json::to_cbor(to_json(plan))));
  ASSERT_EQ(back.steps.size(), 1u);
  EXPECT_EQ(back.steps[0].views, launch.views);
  EXPECT_EQ(back.steps[0].arguments, launch.arguments);
  EXPECT_EQ(back.steps[0].scratch_bytes, 4096);
}

TEST(Outcome, a_binary_the_compilers_log_rules_out_is_no_compiler_that_fails) {
  const Outcome spilled = not_compiled(backend::rejected_binary("softmax", "k spills: 976 bytes stored"));
  EXPECT_TRUE(std::holds_alternative<CompileRejected>(spilled));
  EXPECT_EQ(text(spilled), "rejected by the compiler's log: k spills: 976 bytes stored");
  EXPECT_TRUE(std::holds_alternative<CompileFailed>(not_compiled(error_of(ErrorKind::internal, "the compiler refused softmax", "oops"))));
  EXPECT_TRUE(std::holds_alternative<CompileFailed>(not_compiled(error_of(ErrorKind::device, "target cuda has no compiler"))));
}

}  // namespace
}  // namespace rtx::tune

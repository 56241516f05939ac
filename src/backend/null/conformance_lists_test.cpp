// The suite's lists themselves, on a backend that fails some checks. Not part of what a copy needs.
#include <gtest/gtest.h>

#include "backend/conformance/conformance.h"
#include "backend/null/compile.h"
#include "backend/null/device.h"
#include "backend/null/dialect.h"

namespace rtx::backend::null {
namespace {

// A list that has fallen behind fails, whichever way.
TEST(ConformanceLists, a_check_that_passes_is_a_stale_entry_of_either_list) {
  const conformance::Backend backend{make_compiler, make_device, make_dialect};
  const auto& check = conformance::checks().front();
  const std::string name(check.name);
  EXPECT_EQ(conformance::judge(check, backend, {}), "");
  EXPECT_NE(conformance::judge(check, backend, {{{name, "no reason"}}, {}}).find("stale entry"),
            std::string::npos);
  EXPECT_NE(conformance::judge(check, backend, {{}, {{name, "nothing"}}}).find("stale entry"),
            std::string::npos);
}

TEST(ConformanceLists, a_failing_check_that_no_list_excuses_fails) {
  const conformance::Backend backend{make_compiler, make_device, make_dialect};
  for (const auto& check : conformance::checks())
    if (check.name == "every_group_runs_exactly_once") {
      EXPECT_NE(conformance::judge(check, backend, {}).find("the null device computes nothing"),
                std::string::npos);
    }
}

TEST(ConformanceLists, a_list_may_not_name_what_does_not_exist_or_the_same_twice) {
  EXPECT_NE(
      conformance::judge_lists({{{"no_such_check", "why"}}, {}}).find("no check is called no_such_check"),
      std::string::npos);
  EXPECT_NE(conformance::judge_lists(
                {{{"arguments_arrive_in_order", "why"}}, {{"arguments_arrive_in_order", "what"}}})
                .find("twice"),
            std::string::npos);
  EXPECT_NE(conformance::judge_lists({{{"arguments_arrive_in_order", ""}}, {}}).find("without a reason"),
            std::string::npos);
}

}  // namespace
}  // namespace rtx::backend::null

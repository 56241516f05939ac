#pragma once
// Puts a backend's conformance checks among the tests of its folder:
// "CpuConformance.every_group_runs_exactly_once" and so on, and "the_lists_name_checks_that_exist". `ctest -R
// Conformance` runs all of them.
#include <gtest/gtest.h>

#include "backend/conformance/conformance.h"

namespace rtx::backend::conformance {

class RegisteredCheck : public ::testing::Test {
 public:
  explicit RegisteredCheck(std::function<std::string()> run) : run_(std::move(run)) {}
  void TestBody() override { EXPECT_EQ(run_(), ""); }

 private:
  std::function<std::string()> run_;
};

inline bool register_checks(const std::string& name, const Backend& backend, const Expected& expected) {
  const auto add = [&](std::string_view test, std::function<std::string()> run) {
    ::testing::RegisterTest((name + "Conformance").c_str(), std::string(test).c_str(), nullptr, nullptr,
                            __FILE__, __LINE__,
                            [run]() -> RegisteredCheck* { return new RegisteredCheck(run); });
  };
  for (const Check& check : checks()) add(check.name, [=] { return judge(check, backend, expected); });
  add("the_lists_name_checks_that_exist", [=] { return judge_lists(expected); });
  return true;
}

// "CudaHopperConformance.products_read_operands_in_every_major_and_swizzle" and so on.
inline bool register_hopper_checks(const std::string& name, const Backend& backend) {
  for (const Check& check : hopper_checks()) {
    const std::function<std::string()> run = [=] {
      Bench bench(backend);
      return check.run(bench);
    };
    ::testing::RegisterTest((name + "HopperConformance").c_str(), std::string(check.name).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [run]() -> RegisteredCheck* { return new RegisteredCheck(run); });
  }
  return true;
}

}  // namespace rtx::backend::conformance

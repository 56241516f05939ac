#pragma once
// For tests: a body given as IR text is bound to a family, emitted, compiled, run between guard bytes on poisoned memory, and
// compared with the reference. Messages are empty when all is well.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "kernels/family.h"

namespace rtx::kernels::testing {

struct TestCase {
  std::string text{};          // IR text of the body
  std::string parameters{};    // empty: the preferred point
  uint64_t seed = 1;
  double low = -2, high = 2;   // random floating inputs; integers are drawn from the same range (booleans and indices from theirs)
  bool unaligned = false;      // buffers start one element off a 64-byte boundary
  bool special = false;        // some inputs are NaN, Inf, -0, subnormal
  int64_t terms = 0;           // overrides the family's tolerance terms; 0: the family's
  double scale = 1.0;          // multiplies the norm tolerance
  std::function<double(size_t input, int64_t index)> fill{};  // chosen numbers instead of random ones
  std::function<void(std::string& text)> change{};            // what the emitted text of the check becomes before it is compiled
};

// What a check emits for and runs on: this machine's CPU, or the GPU kernel language in the emulator (as an sm_90a; each launch runs in
// two orders of threads, and both must agree). Emulated sums are slow: keep such cases small. RTX_TEST_GPU=cuda in the environment
// takes a real device in the emulator's place.
enum class Target { cpu, emulated };
// Why there is no such target here; empty when there is one. Checks of a target that is not there fail.
const std::string& unavailable(Target target);

// One sentence a failing case (its text first); empty when all agree. Cases share one compilation.
std::string check(const AnyFamily& family, const std::vector<TestCase>& cases, Target target = Target::cpu);
template <KernelFamily F>
std::string check(const std::vector<TestCase>& cases, Target target = Target::cpu) { return check(*erase<F>(), cases, target); }
template <KernelFamily F>
std::string check(const std::string& text, Target target = Target::cpu) { return check(*erase<F>(), {TestCase{.text = text}}, target); }

// On every target there is; a message says which one it is from.
std::string check_everywhere(const AnyFamily& family, const std::vector<TestCase>& cases);
template <KernelFamily F>
std::string check_everywhere(const std::vector<TestCase>& cases) { return check_everywhere(*erase<F>(), cases); }
template <KernelFamily F>
std::string check_everywhere(const std::string& text) { return check_everywhere(*erase<F>(), {TestCase{.text = text}}); }

// Up to `limit` points of the space, spread over it: each agrees with the reference, and those of one numerics class with each
// other bit for bit.
std::string check_candidates(const AnyFamily& family, const TestCase& test, size_t limit = 8, Target target = Target::cpu);
template <KernelFamily F>
std::string check_candidates(const std::string& text, size_t limit = 8, Target target = Target::cpu) {
  return check_candidates(*erase<F>(), TestCase{.text = text}, limit, target);
}

// Why a family does not take a body; empty when it does.
std::string refusal(const AnyFamily& family, std::string_view text);

// Best of `runs` seconds of one launch sequence with warm buffers, for benches and hand measurements.
struct Timing {
  double seconds = 0;
  Work work;
  std::string name;
};
Result<Timing> time_plan(const AnyFamily& family, const TestCase& test, int runs = 10);

}  // namespace rtx::kernels::testing

#define RTX_NEEDS_TARGET(target) \
  if (!::rtx::kernels::testing::unavailable(target).empty()) GTEST_SKIP() << ::rtx::kernels::testing::unavailable(target)

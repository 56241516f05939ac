// The evaluator of this process: no worker, so a candidate that crashes takes the process with it. Tests and small tools use it.
#include <array>

#include "tune/staged_evaluator.h"
#include "tune/trial.h"

namespace rtx::tune {

namespace {

class InProcess final : public StagedEvaluator {
 public:
  InProcess(backend::Compiler& compiler, backend::Device& device, const codegen::Dialect& dialect, uint64_t seed, int jobs, double full_flops)
      : StagedEvaluator(compiler, device.caps(), dialect, jobs, full_flops), device_(device), seed_(seed) {}

 private:
  void forget_problem() override {
    for (auto& cases : cases_) cases.clear();
  }

  Outcome try_on(Check check, const kernels::BoundProblem& problem, const ir::Graph& body, const Artefact& artefact, bool time_it,
                 double timeout_seconds) override {
    auto& cases = cases_[static_cast<size_t>(check)];
    if (cases.empty()) {
      auto made = validate::make_cases(body, seed_, check == Check::sampled);
      if (!made.ok()) return WrongResult{"the reference cannot run: " + made.error().what + " " + made.error().why};
      cases = *std::move(made);
    }
    return try_candidate(device_, artefact.plan, artefact.binary, body, cases, bounds_of(problem.tolerance()), time_it, timeout_seconds);
  }

  backend::Device& device_;
  uint64_t seed_;
  std::array<std::vector<validate::Case>, kChecks> cases_;
};

}  // namespace

std::unique_ptr<Evaluator> make_in_process_evaluator(backend::Compiler& compiler, backend::Device& device, const codegen::Dialect& dialect,
                                                     uint64_t seed, int jobs, double full_flops) {
  return std::make_unique<InProcess>(compiler, device, dialect, seed, jobs, full_flops);
}

}  // namespace rtx::tune

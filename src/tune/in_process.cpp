// The evaluator of this process: no worker, so a candidate that crashes takes the process with it. Tests and small tools use it.
#include <array>

#include "tune/companion.h"
#include "tune/trial.h"
#include "tune/tune.h"

namespace rtx::tune {

namespace {

class InProcess final : public Evaluator {
 public:
  InProcess(backend::Compiler& compiler, backend::Device& device, const codegen::Dialect& dialect, uint64_t seed, int jobs, double full_flops)
      : device_(device), seed_(seed), ahead_(compiler, device.caps(), dialect, jobs), checks_(compiler, device.caps(), dialect, jobs, full_flops) {}

  Outcome evaluate(const kernels::BoundProblem& problem, const ir::Graph& body, const kernels::Candidate& candidate, bool time_it,
                   double timeout_seconds) override {
    if (&problem != problem_) begin(problem);
    checks_.prepare(problem, body);
    auto artefact = ahead_.get(problem, candidate.parameters);
    if (!artefact.ok()) return not_compiled(artefact.error());
    const auto try_on = [&](Check check, const kernels::BoundProblem& of, const ir::Graph& graph, const Artefact& tried, bool time) -> Outcome {
      auto& cases = cases_[static_cast<size_t>(check)];
      if (cases.empty()) {
        auto made = validate::make_cases(graph, seed_, check == Check::sampled);
        if (!made.ok()) return WrongResult{"the reference cannot run: " + made.error().what + " " + made.error().why};
        cases = *std::move(made);
      }
      return try_candidate(device_, tried.plan, tried.binary, graph, cases, bounds_of(of.tolerance()), time, timeout_seconds);
    };
    auto outcome = checks_.run(problem, body, **artefact, candidate.parameters, time_it, try_on);
    if (std::holds_alternative<Measured>(outcome)) accepted_[candidate.parameters] = *artefact;
    return outcome;
  }

  Result<std::pair<backend::KernelPlan, backend::Binary>> artefact(const std::string& parameters) override {
    const auto found = accepted_.find(parameters);
    if (found == accepted_.end()) return error_of(ErrorKind::internal, "no accepted candidate " + parameters);
    return std::pair(found->second->plan, found->second->binary);
  }

  void prefetch(const kernels::BoundProblem& problem, const std::vector<kernels::Candidate>& next) override {
    if (&problem != problem_) begin(problem);
    ahead_.start(problem, next);
    checks_.prefetch(next);
  }

  void finish() override {
    ahead_.clear();
    checks_.begin();
    problem_ = nullptr;
  }

 private:
  void begin(const kernels::BoundProblem& problem) {
    ahead_.clear();
    checks_.begin();
    for (auto& cases : cases_) cases.clear();
    accepted_.clear();
    problem_ = &problem;
  }

  backend::Device& device_;
  uint64_t seed_;
  const kernels::BoundProblem* problem_ = nullptr;
  std::array<std::vector<validate::Case>, kChecks> cases_;
  std::map<std::string, std::shared_ptr<const Artefact>> accepted_;
  CompileAhead ahead_;
  Checks checks_;
};

}  // namespace

std::unique_ptr<Evaluator> make_in_process_evaluator(backend::Compiler& compiler, backend::Device& device, const codegen::Dialect& dialect,
                                                     uint64_t seed, int jobs, double full_flops) {
  return std::make_unique<InProcess>(compiler, device, dialect, seed, jobs, full_flops);
}

}  // namespace rtx::tune

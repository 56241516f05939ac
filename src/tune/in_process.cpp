// The evaluator of this process: no worker, so a candidate that crashes takes the process with it. Tests and small tools use it.
#include "tune/evaluator.h"
#include "tune/trial.h"
#include "tune/tune.h"

namespace rtx::tune {

namespace {

class InProcess final : public Evaluator {
 public:
  InProcess(backend::Compiler& compiler, backend::Device& device, const codegen::Dialect& dialect, uint64_t seed, int jobs)
      : device_(device), seed_(seed), ahead_(compiler, device.caps(), dialect, jobs) {}

  Outcome evaluate(const kernels::BoundProblem& problem, const ir::Graph& body, const kernels::Candidate& candidate, bool time_it,
                   double timeout_seconds) override {
    if (&problem != problem_) begin(problem);
    if (cases_.empty()) {
      auto cases = validate::make_cases(body, seed_);
      if (!cases.ok()) return WrongResult{"the reference cannot run: " + cases.error().what + " " + cases.error().why};
      cases_ = *std::move(cases);
    }
    auto artefact = ahead_.get(problem, candidate.parameters);
    if (!artefact.ok()) return not_compiled(artefact.error());
    auto outcome = try_candidate(device_, (*artefact)->plan, (*artefact)->binary, body, cases_, bounds_of(problem.tolerance()), time_it, timeout_seconds);
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
  }

  void finish() override {
    ahead_.clear();
    problem_ = nullptr;
  }

 private:
  void begin(const kernels::BoundProblem& problem) {
    ahead_.clear();
    cases_.clear();
    accepted_.clear();
    problem_ = &problem;
  }

  backend::Device& device_;
  uint64_t seed_;
  const kernels::BoundProblem* problem_ = nullptr;
  std::vector<validate::Case> cases_;
  std::map<std::string, std::shared_ptr<const Artefact>> accepted_;
  CompileAhead ahead_;
};

}  // namespace

std::unique_ptr<Evaluator> make_in_process_evaluator(backend::Compiler& compiler, backend::Device& device, const codegen::Dialect& dialect,
                                                     uint64_t seed, int jobs) {
  return std::make_unique<InProcess>(compiler, device, dialect, seed, jobs);
}

}  // namespace rtx::tune

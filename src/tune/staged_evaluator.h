#pragma once
// What evaluators share: candidates are compiled ahead on background threads, each goes through the problem's checks, and what passed
// is kept until the next problem. Where a check runs (this process, a worker) is the derived class's.
#include <map>
#include <memory>
#include <string>

#include "tune/companion.h"
#include "tune/evaluator.h"
#include "tune/tune.h"

namespace rtx::tune {

class StagedEvaluator : public Evaluator {
 public:
  Outcome evaluate(const kernels::BoundProblem& problem, const ir::Graph& body, const kernels::Candidate& candidate, bool time_it,
                   double timeout_seconds) final;
  Result<std::pair<backend::KernelPlan, backend::Binary>> artefact(const std::string& parameters) final;
  void prefetch(const kernels::BoundProblem& problem, const std::vector<kernels::Candidate>& next) final;
  void finish() final;

 protected:
  StagedEvaluator(backend::Compiler& compiler, const backend::Caps& caps, const codegen::Dialect& dialect, int jobs, double full_flops)
      : ahead_(compiler, caps, dialect, jobs), checks_(compiler, caps, dialect, jobs, full_flops) {}
  // A problem that the checks have not seen comes next.
  virtual void forget_problem() = 0;
  // Tries an artefact on the input sets of one check.
  virtual Outcome try_on(Check check, const kernels::BoundProblem& problem, const ir::Graph& body, const Artefact& artefact, bool time_it,
                         double timeout_seconds) = 0;

 private:
  void begin(const kernels::BoundProblem& problem);

  const kernels::BoundProblem* problem_ = nullptr;
  std::map<std::string, std::shared_ptr<const Artefact>> accepted_;
  CompileAhead ahead_;
  Checks checks_;
};

}  // namespace rtx::tune

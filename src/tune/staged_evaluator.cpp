#include "tune/staged_evaluator.h"

namespace rtx::tune {

Outcome StagedEvaluator::evaluate(const kernels::BoundProblem& problem, const ir::Graph& body, const kernels::Candidate& candidate, bool time_it,
                                  double timeout_seconds) {
  if (&problem != problem_) begin(problem);
  checks_.prepare(problem, body);
  auto artefact = ahead_.get(problem, candidate.parameters);
  if (!artefact.ok()) return not_compiled(artefact.error());
  const auto on_check = [&](Check check, const kernels::BoundProblem& of, const ir::Graph& graph, const Artefact& tried, bool time) {
    return try_on(check, of, graph, tried, time, timeout_seconds);
  };
  auto outcome = checks_.run(problem, body, **artefact, candidate.parameters, time_it, on_check);
  if (std::holds_alternative<Measured>(outcome)) accepted_[candidate.parameters] = *artefact;
  return outcome;
}

Result<std::pair<backend::KernelPlan, backend::Binary>> StagedEvaluator::artefact(const std::string& parameters) {
  const auto found = accepted_.find(parameters);
  if (found == accepted_.end()) return error_of(ErrorKind::internal, "no accepted candidate " + parameters);
  return std::pair(found->second->plan, found->second->binary);
}

void StagedEvaluator::prefetch(const kernels::BoundProblem& problem, const std::vector<kernels::Candidate>& next) {
  if (&problem != problem_) begin(problem);
  ahead_.start(problem, next);
  checks_.prefetch(next);
}

void StagedEvaluator::finish() {
  ahead_.clear();
  checks_.begin();
  problem_ = nullptr;
}

void StagedEvaluator::begin(const kernels::BoundProblem& problem) {
  ahead_.clear();
  checks_.begin();
  accepted_.clear();
  forget_problem();
  problem_ = &problem;
}

}  // namespace rtx::tune

#pragma once
// What a candidate of a problem is checked on. Up to validate::kFullReferenceFlops that is the problem itself, against a reference of
// everything. A larger one has a companion: the same body with smaller extents that leave the same remainders to tiles. The same
// candidate of the companion is checked in full; of the problem itself a sample of rows is, and that the rest is written and finite.
#include <memory>
#include <optional>

#include "kernels/family.h"
#include "tune/evaluator.h"
#include "tune/outcome.h"
#include "validate/validate.h"

namespace rtx::tune {

struct Companion {
  ir::Graph body;
  std::unique_ptr<kernels::BoundProblem> problem;
};

// The checks of one problem; each has input sets and a reference of its own, made when it is first used.
enum class Check : int { full, sampled, companion };
constexpr int kChecks = 3;

class Checks {
 public:
  Checks(backend::Compiler& compiler, backend::Caps caps, codegen::Dialect dialect, int jobs, double full_flops)
      : ahead_(compiler, std::move(caps), std::move(dialect), (jobs + 1) / 2), full_flops_(full_flops) {}
  // Forgets the last problem.
  void begin();
  // To be called before run(); the companion is made with the first body.
  void prepare(const kernels::BoundProblem& problem, const ir::Graph& body);
  void prefetch(const std::vector<kernels::Candidate>& next);
  // Runs one candidate through its checks; only the last one is timed. `check` tries an artefact on the input sets of a check.
  using TryOn = std::function<Outcome(Check check, const kernels::BoundProblem& problem, const ir::Graph& body, const Artefact& artefact, bool time_it)>;
  Outcome run(const kernels::BoundProblem& problem, const ir::Graph& body, const Artefact& artefact, const std::string& parameters, bool time_it, const TryOn& try_on);

 private:
  CompileAhead ahead_;  // of the companion
  double full_flops_;
  bool prepared_ = false;
  std::optional<Companion> companion_;
  std::vector<kernels::Candidate> next_;
};

}  // namespace rtx::tune

#include "tune/companion.h"

namespace rtx::tune {

namespace {

Outcome on_companion(Outcome outcome) {
  constexpr const char* kWhere = "on a smaller problem with the same remainders, ";
  if (auto* wrong = std::get_if<WrongResult>(&outcome)) wrong->report = kWhere + wrong->report;
  if (auto* crashed = std::get_if<Crashed>(&outcome)) crashed->report = kWhere + crashed->report;
  return outcome;
}

}  // namespace

void Checks::begin() {
  ahead_.clear();
  companion_.reset();
  next_.clear();
  prepared_ = false;
}

void Checks::prepare(const kernels::BoundProblem& problem, const ir::Graph& body) {
  if (prepared_) return;
  prepared_ = true;
  auto small = validate::small_companion(body, full_flops_);
  const auto* family = kernels::family(problem.family());
  if (!small || !family) return;
  auto bound = family->bind(*small);
  if (!bound.ok()) return;
  companion_ = Companion{*std::move(small), *std::move(bound)};
  ahead_.start(*companion_->problem, next_);
}

void Checks::prefetch(const std::vector<kernels::Candidate>& next) {
  next_ = next;
  if (companion_) ahead_.start(*companion_->problem, next);
}

Outcome Checks::run(const kernels::BoundProblem& problem, const ir::Graph& body, const Artefact& artefact, const std::string& parameters, bool time_it, const TryOn& try_on) {
  if (!companion_) return try_on(Check::full, problem, body, artefact, time_it);
  // A candidate that the companion's space does not have is checked on the problem itself, in full.
  const auto small = ahead_.get(*companion_->problem, parameters);
  if (!small.ok()) return try_on(Check::full, problem, body, artefact, time_it);
  auto outcome = on_companion(try_on(Check::companion, *companion_->problem, companion_->body, **small, false));
  if (!std::holds_alternative<Measured>(outcome)) return outcome;
  return try_on(Check::sampled, problem, body, artefact, time_it);
}

}  // namespace rtx::tune

#include "compiler/choose.h"

#include <algorithm>

#include "codegen/embedded.h"

namespace rtx::compiler {

Result<cache::Key> Chooser::key(const kernels::BoundProblem& problem) const {
  const auto& caps = toolbox_.device->caps();
  cache::Key key;
  key.op = std::string(problem.family());
  key.problem = problem.key();
  key.flags = options_.deterministic ? "deterministic" : "";
  key.target = caps.target;
  key.device = caps.device;
  key.arch = caps.arch;
  key.driver = caps.driver;
  RTX_TRY(key.toolchain, toolbox_.compiler->toolchain(caps.arch));
  key.synth_sha = std::string(codegen::synth_sha(problem.family()));
  return key;
}

std::optional<Choice> Chooser::remembered(const kernels::BoundProblem& problem, const cache::Key& key) const {
  if (!toolbox_.cache) return std::nullopt;
  auto entry = toolbox_.cache->find(key);
  if (!entry) return std::nullopt;
  // An untuned first pick does not stand in the way of tuning.
  if (options_.tune && entry->record.measured_ms == 0 && !options_.deterministic) return std::nullopt;
  const std::string digest = key.digest();
  if (const std::string* wanted = lock_.find(digest); wanted && *wanted != entry->record.parameters) return std::nullopt;
  auto plan = problem.emit(entry->record.parameters, toolbox_.device->caps(), toolbox_.dialect);
  if (!plan.ok()) return std::nullopt;
  Choice choice;
  choice.parameters = entry->record.parameters;
  choice.numerics_class = entry->record.numerics_class;
  choice.tuning = "cache";
  choice.digest = digest;
  choice.plan = *std::move(plan);
  choice.binary.bytes = std::move(entry->binary);
  choice.measured_ms = entry->record.measured_ms;
  choice.cache_hit = true;
  return choice;
}

void Chooser::store(const cache::Key& key, const Choice& choice) {
  if (!toolbox_.cache) return;
  cache::Entry entry;
  entry.record.key_text = key.text();
  entry.record.parameters = choice.parameters;
  entry.record.numerics_class = choice.numerics_class;
  entry.record.measured_ms = choice.measured_ms;
  entry.record.tuning = choice.tuning;
  entry.record.verdict = "validated";
  for (const auto& tried : choice.tried) {
    if (const auto* measured = std::get_if<tune::Measured>(&tried.outcome)) entry.record.timings[tried.candidate.parameters] = measured->median_ms;
    else entry.record.rejected[tried.candidate.parameters] = tune::text(tried.outcome);
  }
  entry.source = choice.plan.text;
  entry.log = choice.binary.log;
  entry.binary = choice.binary.bytes;
  toolbox_.cache->store(key, entry);
}

Result<Choice> Chooser::choose(const kernels::BoundProblem& problem, const ir::Graph& body, const cache::Key& key, double budget_seconds) {
  const std::string digest = key.digest();
  if (lock_.obeyed()) {
    const std::string* parameters = lock_.find(digest);
    if (!parameters)
      return error_of(ErrorKind::check_failed, "the lock file " + lock_.path() + " has no entry for a kernel of this model",
                      std::string(problem.family()) + " " + problem.key(), "delete the lock file to choose again, or compile on the machine it was made for");
    RTX_TRY(Choice choice, locked(problem, body, *parameters));
    choice.digest = digest;
    store(key, choice);
    return choice;
  }
  // Another process may be building the same key: wait for it, then look again.
  if (toolbox_.cache && toolbox_.cache->wait_or_lock(key, std::max(30.0, 2 * budget_seconds))) {
    if (auto choice = remembered(problem, key)) return *std::move(choice);
  }
  auto choice = tuned(problem, body, key, budget_seconds);
  if (choice.ok()) {
    choice->digest = digest;
    store(key, *choice);
  }
  if (toolbox_.cache) toolbox_.cache->unlock(key);
  return choice;
}

Result<Choice> Chooser::tuned(const kernels::BoundProblem& problem, const ir::Graph& body, const cache::Key&, double budget_seconds) {
  tune::Budget budget;
  budget.seconds = options_.tune ? budget_seconds : 0;
  tune::Progress progress;
  progress.stop = options_.stop;
  RTX_TRY(tune::Tuned tuned, tune::tune(problem, body, toolbox_.device->caps(), budget, options_.deterministic, *toolbox_.evaluator, progress));
  Choice choice;
  choice.parameters = std::move(tuned.parameters);
  choice.numerics_class = std::move(tuned.numerics_class);
  choice.tuning = std::move(tuned.summary);
  choice.plan = std::move(tuned.plan);
  choice.binary = std::move(tuned.binary);
  choice.measured_ms = tuned.measured_ms;
  choice.tried = std::move(tuned.tried);
  return choice;
}

Result<Choice> Chooser::locked(const kernels::BoundProblem& problem, const ir::Graph& body, const std::string& parameters) {
  kernels::Candidate candidate;
  candidate.parameters = parameters;
  const auto outcome = toolbox_.evaluator->evaluate(problem, body, candidate, false, 120.0);
  if (!std::holds_alternative<tune::Measured>(outcome))
    return error_of(ErrorKind::check_failed, "the locked kernel for " + std::string(problem.family()) + " cannot be used", tune::text(outcome));
  RTX_TRY(auto artefact, toolbox_.evaluator->artefact(parameters));
  Choice choice;
  choice.parameters = parameters;
  choice.numerics_class = artefact.first.numerics_class;
  choice.tuning = "lock";
  choice.plan = std::move(artefact.first);
  choice.binary = std::move(artefact.second);
  choice.tried.push_back({candidate, outcome});
  return choice;
}

}  // namespace rtx::compiler

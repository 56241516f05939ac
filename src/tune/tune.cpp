#include "tune/tune.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace rtx::tune {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A candidate whose roofline estimate is this many times the best estimate is not worth a compile.
constexpr double kHopeless = 4.0;
// The longest one candidate may take, compile included.
constexpr double kCandidateSeconds = 30.0;

// Parameters spread over the space come before close relatives of each other: the grid is walked by strides.
std::vector<kernels::Candidate> grid_order(std::vector<kernels::Candidate> candidates, int limit) {
  if (static_cast<int>(candidates.size()) <= limit) return candidates;
  std::vector<kernels::Candidate> out(candidates.begin(), candidates.begin() + 1);  // the preferred point
  const double step = static_cast<double>(candidates.size() - 1) / (limit - 1);
  for (int i = 0; i < limit - 1; ++i) out.push_back(candidates[1 + static_cast<size_t>(i * step)]);
  return out;
}

std::string reasons(const std::vector<Tried>& tried) {
  std::string out;
  for (const auto& item : tried) out += (out.empty() ? "" : "; ") + item.candidate.parameters + ": " + text(item.outcome);
  return out.substr(0, 4000);
}

}  // namespace

Result<Tuned> tune(const kernels::BoundProblem& problem, const ir::Graph& body, const backend::Caps& caps, const Budget& budget, bool deterministic,
                   Evaluator& evaluator, const Progress& progress) {
  const auto start = Clock::now();
  struct Finish {
    Evaluator& evaluator;
    ~Finish() { evaluator.finish(); }
  } finish{evaluator};
  const auto stopped = [&] { return progress.stop && progress.stop->load(std::memory_order_relaxed); };

  auto all = problem.candidates(caps);
  if (all.empty())
    return error_of(ErrorKind::internal, "no legal parameters for " + std::string(problem.family()), problem.key(), "please report this problem");
  const auto total = static_cast<int>(all.size());
  Tuned out;

  const bool time_it = budget.seconds > 0;
  const bool computes = std::any_of(body.outputs.begin(), body.outputs.end(), [&](ir::ValueId id) { return ir::element_count(body.extents(id)) > 0; });
  const bool search = time_it && computes && all.size() > 1;  // all ways to compute nothing are as good
  auto order = grid_order(all, std::max(2, budget.max_candidates));
  double best_estimate = 0;
  for (const auto& candidate : order)
    if (candidate.estimate_ms > 0 && (best_estimate == 0 || candidate.estimate_ms < best_estimate)) best_estimate = candidate.estimate_ms;
  if (search) {
    std::vector<kernels::Candidate> ahead;
    for (const auto& candidate : order)
      if (candidate.preferred || candidate.estimate_ms <= kHopeless * best_estimate) ahead.push_back(candidate);
    evaluator.prefetch(problem, ahead);
  }

  int timed = 0;
  std::string fixed_class;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& candidate = order[i];
    const bool have_one = !out.parameters.empty();
    if (have_one && (!search || stopped() || seconds_since(start) >= budget.seconds)) break;
    if (stopped() && !have_one) return error_of(ErrorKind::interrupted, "interrupted before a kernel was found");
    if (search && !candidate.preferred && candidate.estimate_ms > kHopeless * best_estimate) {
      out.tried.push_back({candidate, Rejected{"the roofline estimate is more than four times the best one's"}});
      continue;
    }
    const double limit = have_one ? std::min(kCandidateSeconds, std::max(1.0, budget.seconds - seconds_since(start) + 1.0)) : 4 * kCandidateSeconds;
    Outcome outcome = evaluator.evaluate(problem, body, candidate, time_it, limit);
    if (stopped() && !std::holds_alternative<Measured>(outcome)) continue;  // it says nothing about the candidate
    if (std::holds_alternative<Measured>(outcome)) {
      auto artefact = evaluator.artefact(candidate.parameters);
      if (!artefact.ok()) return std::move(artefact).error();
      // Deterministic mode tunes only inside the numerics class of the first candidate that is right: the preferred point's.
      if (fixed_class.empty()) fixed_class = artefact->first.numerics_class;
      if (deterministic && artefact->first.numerics_class != fixed_class) outcome = Rejected{"another numerics class than " + fixed_class};
    }
    out.tried.push_back({candidate, std::move(outcome)});
    const auto* measured = std::get_if<Measured>(&out.tried.back().outcome);
    if (!measured) continue;
    ++timed;
    const bool wins = out.parameters.empty() || (measured->samples > 0 && (out.measured_ms == 0 || measured->median_ms < out.measured_ms));
    if (wins) {
      out.parameters = candidate.parameters;
      out.measured_ms = measured->samples > 0 ? measured->median_ms : 0;
    }
    if (progress.report) progress.report(problem.family(), timed, total);
  }
  if (out.parameters.empty() && stopped()) return error_of(ErrorKind::interrupted, "interrupted before a kernel was found");
  // Not one compiled: the compiler or the disk, as far as anyone can tell from here.
  const auto failed = std::find_if(out.tried.begin(), out.tried.end(), [](const auto& t) { return std::holds_alternative<CompileFailed>(t.outcome); });
  const bool none_compiled = failed != out.tried.end() && std::all_of(out.tried.begin(), out.tried.end(), [](const auto& t) {
                               return std::holds_alternative<CompileFailed>(t.outcome) || std::holds_alternative<Rejected>(t.outcome);
                             });
  if (none_compiled)
    return error_of(ErrorKind::device, "the compiler makes no kernel of " + std::string(problem.family()), text(failed->outcome),
                    "see that the compiler works (RTX_CXX, else the first of c++, g++, clang++ on PATH) and that TMPDIR has room; if both hold, report this problem: " + problem.key());
  // The device's memory, or the reference's: a worker without any for its tensors says so in the allocator's word.
  const auto unmeasured = [](const auto& t) {
    if (const auto* crashed = std::get_if<Crashed>(&t.outcome)) return crashed->report.find("std::bad_alloc") != std::string::npos;
    const auto* wrong = std::get_if<WrongResult>(&t.outcome);
    return wrong && wrong->no_memory;
  };
  if (const auto first = std::find_if(out.tried.begin(), out.tried.end(), unmeasured); out.parameters.empty() && first != out.tried.end())
    return error_of(ErrorKind::device, "memory does not do for " + std::string(problem.family()), reasons({*first}),
                    "end other programs on the device, or use a smaller model or input: " + problem.key());
  if (out.parameters.empty())
    return error_of(ErrorKind::internal, "no candidate of " + std::string(problem.family()) + " computes the right result", reasons(out.tried),
                    "please report this problem: " + problem.key());
  RTX_TRY(auto artefact, evaluator.artefact(out.parameters));
  out.plan = std::move(artefact.first);
  out.binary = std::move(artefact.second);
  out.numerics_class = out.plan.numerics_class;
  char summary[96];
  if (search) std::snprintf(summary, sizeof summary, "grid %d/%d in %.1f s", timed, total, seconds_since(start));
  else std::snprintf(summary, sizeof summary, "first pick of %d", total);
  out.summary = summary;
  return out;
}

}  // namespace rtx::tune

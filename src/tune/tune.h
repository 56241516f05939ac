#pragma once
// Tuning: from a bound problem to the best validated candidate under a budget. A grid over the named axes, pruned by rules and
// the roofline estimate; every candidate is validated before it is timed. Strategies see evaluators only, so they are tested on
// recorded timings.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/compiler.h"
#include "backend/device.h"
#include "kernels/family.h"
#include "tune/outcome.h"
#include "validate/validate.h"

namespace rtx::tune {

struct Budget {
  double seconds = 10.0;       // for this problem; 0: the preferred point, validated but not compared
  int max_candidates = 64;
};

struct Tried {
  kernels::Candidate candidate;
  Outcome outcome;
};
struct Tuned {
  std::string parameters;      // the winner
  std::string numerics_class;
  backend::KernelPlan plan;
  backend::Binary binary;
  double measured_ms = 0;      // 0: not measured
  std::vector<Tried> tried;
  std::string summary;         // "grid 12/60 in 3.1 s"
};

// Evaluates one candidate somewhere (a worker process, the current process, a recording).
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // Compiles (in parallel with others); the binary is kept by the evaluator under the candidate's parameters.
  virtual Outcome evaluate(const kernels::BoundProblem& problem, const ir::Graph& body, const kernels::Candidate& candidate,
                           bool time_it, double timeout_seconds) = 0;
  // The plan and binary of a candidate that evaluate() accepted.
  virtual Result<std::pair<backend::KernelPlan, backend::Binary>> artefact(const std::string& parameters) = 0;
  // Hint: these will be evaluated next, in this order; they may be compiled ahead.
  virtual void prefetch(const kernels::BoundProblem& problem, const std::vector<kernels::Candidate>& next) = 0;
  // The problem is decided: background work on it ends; artefacts stay until the next problem begins.
  virtual void finish() = 0;
};

// `full_flops`: problems with more work have a companion (tune/companion.h).
//
// Evaluates in this process (tests, targets without worker processes): a candidate that crashes takes the process with it.
std::unique_ptr<Evaluator> make_in_process_evaluator(backend::Compiler& compiler, backend::Device& device, const codegen::Dialect& dialect,
                                                     uint64_t seed, int jobs, double full_flops = validate::kFullReferenceFlops);

// Evaluates in a worker process started as `command` (see tune/worker.h): one device there, one request at a time, killed and started
// again when a candidate crashes or hangs, killed when `stop` is set. Compiling stays here, on `jobs` threads. `caps` are the device's as the worker will see it.
std::unique_ptr<Evaluator> make_worker_evaluator(backend::Compiler& compiler, const backend::Caps& caps, const codegen::Dialect& dialect,
                                                 std::vector<std::string> command, uint64_t seed, int jobs, const std::atomic<bool>* stop = nullptr,
                                                 double full_flops = validate::kFullReferenceFlops);

struct Progress {
  std::function<void(std::string_view what, int done, int total)> report;
  const std::atomic<bool>* stop = nullptr;   // set by Ctrl-C: finish with the best so far
};

// Kind internal when no candidate at all computes the right result (each outcome in `why`).
Result<Tuned> tune(const kernels::BoundProblem& problem, const ir::Graph& body, const backend::Caps& caps, const Budget& budget,
                     bool deterministic, Evaluator& evaluator, const Progress& progress = {});

}  // namespace rtx::tune

#pragma once
// Choosing the kernel of one problem: from the lock, the cache, or by tuning (or a validated first pick).
#include <string>

#include "compiler/lock.h"
#include "compiler/pipeline.h"

namespace rtx::compiler {

struct Choice {
  std::string parameters, numerics_class, tuning, digest;
  backend::KernelPlan plan;
  backend::Binary binary;
  double measured_ms = 0;
  bool cache_hit = false;
  std::vector<tune::Tried> tried;
};

class Chooser {
 public:
  Chooser(const Toolbox& toolbox, const Options& options, Lock& lock) : toolbox_(toolbox), options_(options), lock_(lock) {}
  // The key of a problem on this device; asks the compiler who it is (no process on a second run).
  Result<cache::Key> key(const kernels::BoundProblem& problem) const;
  // What the cache holds for the problem, if its parameters are still legal and the lock agrees.
  std::optional<Choice> remembered(const kernels::BoundProblem& problem, const cache::Key& key) const;
  Result<Choice> choose(const kernels::BoundProblem& problem, const ir::Graph& body, const cache::Key& key, double budget_seconds);

 private:
  Result<Choice> tuned(const kernels::BoundProblem& problem, const ir::Graph& body, const cache::Key& key, double budget_seconds);
  Result<Choice> locked(const kernels::BoundProblem& problem, const ir::Graph& body, const std::string& parameters);
  void store(const cache::Key& key, const Choice& choice);

  const Toolbox& toolbox_;
  const Options& options_;
  Lock& lock_;
};

}  // namespace rtx::compiler

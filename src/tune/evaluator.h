#pragma once
// CompileAhead: compiles candidates on background threads and hands each binary out once it is needed. Shared by evaluators.
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backend/compiler.h"
#include "kernels/family.h"
#include "tune/outcome.h"

namespace rtx::tune {

struct Artefact {
  backend::KernelPlan plan;
  backend::Binary binary;
};

// What became of a candidate that get() has no artefact of.
Outcome not_compiled(const Error& error);

class CompileAhead {
 public:
  CompileAhead(backend::Compiler& compiler, backend::Caps caps, codegen::Dialect dialect, int jobs);
  ~CompileAhead();
  // Starts compiling these in order; nothing else is kept from earlier problems.
  void start(const kernels::BoundProblem& problem, const std::vector<kernels::Candidate>& candidates);
  // The artefact of one candidate, compiled here and now if nobody has. The error is the emitter's or the compiler's.
  Result<std::shared_ptr<const Artefact>> get(const kernels::BoundProblem& problem, const std::string& parameters);
  // Lets what runs finish and forgets the rest.
  void clear();

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace rtx::tune

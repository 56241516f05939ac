#include "kernels/pointwise/pointwise.h"

namespace rtx::kernels::pointwise {

std::string Family::key(const Problem& problem) { return "pointwise " + problem.name + "\n" + problem.program.text(); }

Space<Params> Family::space(const Problem& problem, const backend::Caps& caps) {
  const double milliseconds = problem.work.bytes() / (caps.copy_gbps * 1e6);
  return nest_space(problem.program, caps).estimate([=](const Params& p) { return nest_estimate(milliseconds, p); });
}

Result<backend::KernelPlan> Family::emit(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  return emit_program(problem.program, problem.name, "kernels/pointwise/emit.cpp", params, problem.work, caps, dialect);
}

}  // namespace rtx::kernels::pointwise

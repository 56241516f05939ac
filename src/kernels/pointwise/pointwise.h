#pragma once
// Pointwise: y[c] = f(x0[c0], x1[c1], ...), every output element a formula over elements of the inputs at broadcast or moved
// coordinates. Any body of pointwise and movement operators with at least one pointwise one; several outputs of different shapes
// become several nests of one launch. Memory bound: the kernel's job is to touch each byte once, along rows.
#include <string>

#include "kernels/family.h"
#include "kernels/nests.h"

namespace rtx::kernels::pointwise {

struct Problem {
  std::string name;
  NestProgram program;
  Work work;
  bool moves_only = false;
};
using Params = NestParams;

struct Family {
  using Problem = pointwise::Problem;
  using Params = pointwise::Params;
  static std::string_view name() { return "pointwise"; }
  static fuse::Pattern pattern();
  static Result<Problem> problem(const ir::Graph& body);
  static std::string key(const Problem& problem);
  static Space<Params> space(const Problem& problem, const backend::Caps& caps);
  static Result<backend::KernelPlan> emit(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect);
  static Work work(const Problem& problem);
  static Tolerance tolerance(const Problem& problem);
};

}  // namespace rtx::kernels::pointwise

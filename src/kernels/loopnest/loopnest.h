#pragma once
// Loopnest: the family that takes what no other claims: one operator, any element type, any strides, any axis. Written for being
// right: floating types are computed in f64 and rounded once, integers in 64 bits and wrapped. A group is a few rows of the output.
//
// Pointwise and movement operators are not here: their families take all of them.
#include <string>

#include "kernels/family.h"

namespace rtx::kernels::loopnest {

struct Problem {
  std::string name;
  ir::Graph body;
  Work work;
  Tolerance tolerance;
  int64_t rows = 0;  // independent pieces of work: output rows, (batch, head, query) triples
};

struct Params {
  int64_t rows_per_group = 1;
  int64_t threads = 1;  // GPU: each takes rows of its own
};

struct Family {
  using Problem = loopnest::Problem;
  using Params = loopnest::Params;
  static std::string_view name() { return "loopnest"; }
  static fuse::Pattern pattern();
  static Result<Problem> problem(const ir::Graph& body);
  static std::string key(const Problem& problem);
  static Space<Params> space(const Problem& problem, const backend::Caps& caps);
  static Result<backend::KernelPlan> emit(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect);
  static Work work(const Problem& problem);
  static Tolerance tolerance(const Problem& problem);
};

}  // namespace rtx::kernels::loopnest

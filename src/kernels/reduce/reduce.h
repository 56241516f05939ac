#pragma once
// Reduce: r[kept] = sum, mean, maximum or minimum over the reduced axes of x, with x a formula over the inputs (prologue) and the
// outputs formulas over r (epilogue).
//
// Two forms, by what is contiguous in memory:
//   rows     a reduced axis: vector lanes hold partial results along it, combined by a fixed tree; a group is some outputs
//   columns  a kept axis: lanes are outputs, a row of results stays in scratch while rows of x are added; a group is a strip of columns
// Few outputs over much data: `parts` pieces of the outermost reduced loop go to a workspace, a second launch combines them in order.
//
// Floating sums are f32 over at most kBlock terms a lane, blocks are added in f64. Integers are exact (they wrap). NaN passes max, min.
#include <string>

#include "codegen/nest.h"
#include "kernels/family.h"

namespace rtx::kernels::reduce {

constexpr int64_t kRowBlock = 8192;    // elements between two flushes into the f64 total, rows form
constexpr int64_t kColumnBlock = 128;  // rows between two flushes, columns form

struct Problem {
  std::string name;
  ir::Op op = ir::Op::reduce_sum;
  ir::DType dtype = ir::DType::f32;     // of x as it is computed
  codegen::ElementDag prologue;         // element `x`; no stores
  int x = 0;
  codegen::ElementDag epilogue;         // leaf 0 is r
  std::vector<int64_t> extents;         // by variable of both DAGs
  std::vector<int> kept, reduced;       // loop orders, extents > 1
  bool columns = false;                 // the last of `kept` is the lane; else the last of `reduced`
  int64_t outputs = 0, terms = 0;
  Work work;
  int64_t extent(int v) const { return extents[static_cast<size_t>(v)]; }
};

struct Params {
  int64_t vector_width = 16;
  int64_t outputs_per_group = 16;  // columns form: columns of a strip
  int64_t parts = 1;
  int64_t threads = 1;  // GPU: of the team that has an output (rows form), or of a group with an output each
};

struct Family {
  using Problem = reduce::Problem;
  using Params = reduce::Params;
  static std::string_view name() { return "reduce"; }
  static fuse::Pattern pattern();
  static Result<Problem> problem(const ir::Graph& body);
  static std::string key(const Problem& problem);
  static Space<Params> space(const Problem& problem, const backend::Caps& caps);
  static Result<backend::KernelPlan> emit(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect);
  static Work work(const Problem& problem);
  static Tolerance tolerance(const Problem& problem);
};

// For groups of many threads.
Space<Params> space_gpu(const Problem& problem, const backend::Caps& caps);
Result<backend::KernelPlan> emit_gpu(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect);

}  // namespace rtx::kernels::reduce

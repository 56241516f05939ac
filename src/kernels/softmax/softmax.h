#pragma once
// Softmax and log-softmax along one axis, with pointwise operators and movements on both sides:
//
//   x = prologue(inputs)      a scale, a mask that is added or selects -inf
//   p = e^(x - max x) / sum   or   x - max x - log sum
//   y = epilogue(p)
//
// Two forms, told apart by the shape alone:
//   row      the elements along the axis are neighbours, or few others stand beside them: a group is some rows
//   columns  lanes run along the axes behind the softmax axis: a group is a tile [axis][columns]
// Either is read once into the thread's buffer. One that does not fit is refused: the loop nest takes it.
#include "codegen/element.h"
#include "kernels/family.h"

namespace rtx::kernels::softmax {

struct Params {
  int64_t rows_per_group = 16;  // row form
  int64_t columns = 0;          // columns form: width of the tile
  int64_t threads = 1;          // GPU: that share a row, or of a group with a column each
};

struct Problem {
  ir::Graph body;
  bool logarithm = false;
  bool column_form = false;
  int64_t outer = 0, axis = 0, inner = 0;  // x as [outer][axis][inner]; row form: inner is part of outer
  ir::DType dtype = ir::DType::f32;
  // Variables of the DAGs: 0 outer, 1 along the axis, 2 inner.
  codegen::ElementDag prologue;  // x, and results stored on the way
  int x = 0;
  codegen::ElementDag epilogue;  // leaf 0: the anchor's result
};

constexpr int64_t kLongestAxis = 192 << 10;     // row form: 768 KiB of f32
constexpr int64_t kLongestColumn = 12 << 10;    // columns form: the narrowest tile then takes 768 KiB
constexpr int64_t kFewestColumns = 8;           // fewer columns than this: the row form with strided loads

struct Softmax {
  using Problem = softmax::Problem;
  using Params = softmax::Params;
  static std::string_view name() { return "softmax"; }
  static fuse::Pattern pattern();
  static Result<Problem> problem(const ir::Graph& body);
  static std::string key(const Problem& problem);
  static Space<Params> space(const Problem& problem, const backend::Caps& caps);
  static Result<backend::KernelPlan> emit(const Problem& problem, const Params& params, const backend::Caps& caps,
                                          const codegen::Dialect& dialect);
  static Work work(const Problem& problem);
  static Tolerance tolerance(const Problem& problem);
};
static_assert(KernelFamily<Softmax>);
// For groups of many threads.
Space<Params> space_gpu(const Problem& problem, const backend::Caps& caps);
Result<backend::KernelPlan> emit_gpu(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect);

}  // namespace rtx::kernels::softmax

#pragma once
// Layer and RMS normalisation with what stands around them:
//
//   x = prologue(inputs)              pointwise and movements: a residual sum, an embedding look-up; may be stored as a result too
//   n = (x - mean(x)) / sqrt(var(x) + epsilon)        or   x / sqrt(mean(x^2) + epsilon)
//   y = epilogue(n * scale + bias)    pointwise and movements: an activation, a transposition, a cast
//
// A group is some rows; a row is all elements along the normalised (trailing) axes. It is read once into a buffer of the thread,
// normalised there and stored once. A row that does not fit the buffer is refused: the loop nest takes it. An x that is an f32 input
// as it lies in memory needs no buffer; its statistics are computed one row ahead.
#include "codegen/element.h"
#include "kernels/family.h"

namespace rtx::kernels::norm {

struct Params {
  int64_t rows_per_group = 16;
  int64_t unroll = 1;  // vectors that the prologue and the epilogue have in flight
  int64_t threads = 1;  // GPU: that share a row
};

struct Problem {
  ir::Graph body;  // the region as it came, for work
  std::string op;
  bool centred = true;  // layer norm; false: rms norm
  int64_t rows = 0, columns = 0;
  double epsilon = 0;
  ir::DType dtype = ir::DType::f32;
  // Variables of the DAGs: 0 the row, 1 the column.
  codegen::ElementDag prologue;    // x, and the results stored on the way
  int x = 0;                       // element of the prologue
  codegen::ElementDag statistics;  // stores of mean and 1 / deviation, once a row; leaves kMean, kSpread
  codegen::ElementDag epilogue;    // leaf kNormalised
};

constexpr int kNormalised = 0, kMean = 1, kSpread = 2;
constexpr int64_t kLongestRow = 192 << 10;  // elements: 768 KiB of f32, within a thread's scratch

struct Norm {
  using Problem = norm::Problem;
  using Params = norm::Params;
  static std::string_view name() { return "norm"; }
  static fuse::Pattern pattern();
  static Result<Problem> problem(const ir::Graph& body);
  static std::string key(const Problem& problem);
  static Space<Params> space(const Problem& problem, const backend::Caps& caps);
  static Result<backend::KernelPlan> emit(const Problem& problem, const Params& params, const backend::Caps& caps,
                                          const codegen::Dialect& dialect);
  static Work work(const Problem& problem);
  static Tolerance tolerance(const Problem& problem);
};
static_assert(KernelFamily<Norm>);
// On a CPU: a row is summed while the one before it is finished.
bool runs_ahead(const Problem& problem);
// For groups of many threads.
Space<Params> space_gpu(const Problem& problem, const backend::Caps& caps);
Result<backend::KernelPlan> emit_gpu(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect);

}  // namespace rtx::kernels::norm

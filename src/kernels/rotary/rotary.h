#pragma once
// Rotary position embedding: of each row of x [batch, heads, rows, columns] the first `turned` columns are pairs (a, b), the two
// halves or neighbours, and become (a c - b s, b c + a s) with the angle's cosine c and sine s of the row's position; the other
// columns pass.
//
// A row is turned into a buffer of the thread and stored from there, so that prologue and epilogue are those of any row family:
// x may be a slice and transposition of a projection, the result may be cast or laid out otherwise.
#include "codegen/element.h"
#include "kernels/family.h"

namespace rtx::kernels::rotary {

struct Params {
  int64_t rows_per_group = 16;
  int64_t threads = 1;  // GPU: of a group, which then has no whole rows
};

struct Problem {
  ir::Graph body;
  int64_t rows = 0, columns = 0, turned = 0;
  bool interleaved = false;
  ir::DType dtype = ir::DType::f32;
  // Variables of the DAGs: 0 the row, 1 the pair (of turn, low, high) or the column behind the pairs (of rest).
  codegen::ElementDag turn;  // a pair and its angle
  int a = 0, b = 0, cosine = 0, sine = 0;
  codegen::ElementDag rest;
  int passed = 0;
  codegen::ElementDag low, high, behind;  // epilogue of a pair's first and second column and of a passed one; leaf 0: the result
};

constexpr int64_t kWidestRow = 64 << 10;

struct Rotary {
  using Problem = rotary::Problem;
  using Params = rotary::Params;
  static std::string_view name() { return "rotary"; }
  static fuse::Pattern pattern();
  static Result<Problem> problem(const ir::Graph& body);
  static std::string key(const Problem& problem);
  static Space<Params> space(const Problem& problem, const backend::Caps& caps);
  static Result<backend::KernelPlan> emit(const Problem& problem, const Params& params, const backend::Caps& caps,
                                          const codegen::Dialect& dialect);
  static Work work(const Problem& problem);
  static Tolerance tolerance(const Problem& problem);
};
static_assert(KernelFamily<Rotary>);
Result<backend::KernelPlan> emit_gpu(const Problem& problem, const Params& params, const codegen::Dialect& dialect);

}  // namespace rtx::kernels::rotary

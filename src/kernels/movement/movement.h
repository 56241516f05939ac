#pragma once
// Movement: reshape, transpose, slice, expand, concat, gather, gather_nd, trilu and chains of them (pointwise
// operators may join): each output element is one input element. scatter_nd alone: a copy of the data, then
// the updates; tensor_scatter alone: a copy of the cache, then the fresh rows, which may be a view of what
// the region reads.
//
// A gather's indices are data: one outside its axis is clamped into it. A scatter's update whose index is
// outside is dropped.
#include <string>

#include "kernels/family.h"
#include "kernels/nests.h"

namespace rtx::kernels::movement {

// out = data; for every i: out[indices[i, :], :] = updates[i, :] (or +=, *=, max, min). Updates of one slice apply in order of i, so
// the last write wins and sums do not depend on threads: groups own disjoint ranges of each slice, not of the updates.
struct Scatter {
  bool present = false;
  ir::DType dtype = ir::DType::f32, index_dtype = ir::DType::i64;
  int64_t elements = 0;                 // of data
  std::vector<int64_t> indexed;         // extents of the indexed dimensions
  int64_t updates = 0, slice = 0;       // number of slices written, elements of one
  int64_t reduction = 0;
};

// out = cache; out[b, o, start[b] + s, :] = fresh[b, o, s, :], rows modulo `room` where circular, else dropped outside it. Every row has one
// writer: fresh is no longer than the cache.
struct CacheWrite {
  bool present = false, circular = false;
  int64_t batch = 1, outer = 1, room = 1, rows = 1;  // extents: the first, those up to the axis, the axis of the cache and of fresh
  int64_t row_bytes = 0, element_bytes = 0;          // behind the axis
  int cache_input = 0, fresh_input = 1, start_input = 2;  // positions among the body's inputs
  bool dense = true;
  codegen::Index fresh;  // where not: element (b, o, s, column) of its buffer, over variables 0 to 3
};

struct Problem {
  std::string name;
  NestProgram program;
  Scatter scatter;
  CacheWrite cache_write;
  std::string scatter_text;  // of these two, the rest of the key: layouts are dense
  Work work;
  bool moves_only = false;
};
using Params = NestParams;

struct Family {
  using Problem = movement::Problem;
  using Params = movement::Params;
  static std::string_view name() { return "movement"; }
  static fuse::Pattern pattern();
  static Result<Problem> problem(const ir::Graph& body);
  static std::string key(const Problem& problem);
  static Space<Params> space(const Problem& problem, const backend::Caps& caps);
  static Result<backend::KernelPlan> emit(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect);
  static Work work(const Problem& problem);
  static Tolerance tolerance(const Problem& problem);
};

Result<backend::KernelPlan> emit_cache_write(const Problem& problem, const Params& params, const codegen::Dialect& dialect);

}  // namespace rtx::kernels::movement

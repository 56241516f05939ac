#include <algorithm>

#include "kernels/anchored.h"
#include "kernels/norm/norm.h"

namespace rtx::kernels::norm {

namespace {

// Groups should outnumber the cores a few times, so that the last ones to finish do not leave the others idle.
constexpr int64_t kGroupsPerCore = 4;
// Cycles of an empty group (call, pointers), measured; and of one row's reductions and square root.
constexpr double kGroupNanoseconds = 20, kRowNanoseconds = 25;

int64_t preferred_rows(const Problem& p, int64_t cores) {
  int64_t rows = 1;
  while (rows < 64 && p.rows > rows * 2 * cores * kGroupsPerCore) rows *= 4;
  return rows;
}

}  // namespace

Space<Params> Norm::space(const Problem& problem, const backend::Caps& caps) {
  if (caps.lanes_per_wave > 1) return space_gpu(problem, caps);
  const auto work = Norm::work(problem);
  const int64_t cores = std::max(1, caps.cores), rows = problem.rows, bytes = problem.columns * 4, scratch = caps.scratch_bytes;
  const double arithmetic = work.flops / std::max(1.0, caps.peak_gflops_f32 * 1e6), memory = work.bytes() / std::max(1.0, caps.copy_gbps * 1e6);
  return Space<Params>{}
      .axis("rows", &Params::rows_per_group, {1, 4, 16, 64})
      .axis("unroll", &Params::unroll, {1, 2})
      .require("the row fits the thread's scratch", [=](const Params&) { return bytes <= scratch; })
      .require("a group has no more rows than there are", [=](const Params& p) { return p.rows_per_group <= std::max<int64_t>(1, rows); })
      .require("a row beside which the next is summed takes four vectors at a time anyhow",
               [ahead = runs_ahead(problem)](const Params& p) { return !ahead || p.unroll == 1; })
      .prefer({preferred_rows(problem, cores), 1})
      .estimate([=](const Params& p) {
        const double groups = static_cast<double>(ceil_div(std::max<int64_t>(1, rows), p.rows_per_group));
        const double turns = static_cast<double>(ceil_div(static_cast<int64_t>(groups), cores)) * static_cast<double>(cores) / groups;
        return std::max(arithmetic, memory) * turns +
               (groups * kGroupNanoseconds + static_cast<double>(rows) * kRowNanoseconds) * 1e-6 / static_cast<double>(cores);
      });
}

Work Norm::work(const Problem& p) {
  // Sum, difference, square and sum, scale: what the statistics add to the two DAGs.
  const int64_t each = p.prologue.flops() + p.epilogue.flops() + (p.centred ? 5 : 3);
  return {static_cast<double>(each) * static_cast<double>(p.rows) * static_cast<double>(p.columns), bytes_read(p.body), bytes_written(p.body)};
}

Tolerance Norm::tolerance(const Problem& p) { return {ToleranceClass::reduction, std::max<int64_t>(1, p.columns)}; }

}  // namespace rtx::kernels::norm

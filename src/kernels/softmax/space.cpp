#include <algorithm>

#include "kernels/anchored.h"
#include "kernels/softmax/softmax.h"

namespace rtx::kernels::softmax {

namespace {

constexpr int64_t kGroupsPerCore = 4;  // so that the last groups to finish do not leave other cores idle
constexpr double kGroupNanoseconds = 20, kRowNanoseconds = 25;

Params preferred(const Problem& p, const backend::Caps& caps) {
  Params best{1, 0};
  if (!p.column_form) {
    while (best.rows_per_group < 64 && p.outer > best.rows_per_group * 2 * caps.cores * kGroupsPerCore) best.rows_per_group *= 4;
    return best;
  }
  // The widest tile that stays in half of the L2 cache: long pieces of memory, few groups.
  best.columns = 16;
  while (best.columns < 128 && best.columns < p.inner && 2 * best.columns * p.axis * 4 <= caps.l2_bytes / 2) best.columns *= 2;
  return best;
}

}  // namespace

Space<Params> Softmax::space(const Problem& problem, const backend::Caps& caps) {
  if (caps.lanes_per_wave > 1) return space_gpu(problem, caps);
  const auto work = Softmax::work(problem);
  const int64_t cores = std::max(1, caps.cores), outer = problem.outer, axis = problem.axis, inner = problem.inner, scratch = caps.scratch_bytes;
  const bool column_form = problem.column_form;
  const double arithmetic = work.flops / std::max(1.0, caps.peak_gflops_f32 * 1e6), memory = work.bytes() / std::max(1.0, caps.copy_gbps * 1e6);
  const std::vector<int64_t> rows = column_form ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 4, 16, 64};
  const std::vector<int64_t> columns = column_form ? std::vector<int64_t>{16, 32, 64, 128} : std::vector<int64_t>{0};
  return Space<Params>{}
      .axis("rows", &Params::rows_per_group, rows)
      .axis("columns", &Params::columns, columns)
      .require("the buffer fits the thread's scratch",
               [=](const Params& p) { return std::max<int64_t>(1, p.columns) * axis * 4 <= scratch; })
      .require("a group has no more rows than there are", [=](const Params& p) { return p.rows_per_group <= std::max<int64_t>(1, outer); })
      .require("a tile is narrower than twice what there is", [=](const Params& p) { return p.columns <= 16 || p.columns < 2 * inner; })
      .prefer(preferred(problem, caps))
      .estimate([=](const Params& p) {
        const int64_t groups = std::max<int64_t>(1, column_form ? outer * ceil_div(inner, p.columns) : ceil_div(outer, p.rows_per_group));
        const double turns = static_cast<double>(ceil_div(groups, cores) * cores) / static_cast<double>(groups);
        const double rows_of_group = column_form ? 1.0 : static_cast<double>(p.rows_per_group);
        return std::max(arithmetic, memory) * turns +
               static_cast<double>(groups) * (kGroupNanoseconds + rows_of_group * kRowNanoseconds) * 1e-6 / static_cast<double>(cores);
      });
}

Work Softmax::work(const Problem& p) {
  // An exponential counts as the scalar steps it takes, like in ElementDag::flops; and maximum, difference, sum, scale.
  constexpr int64_t exponential = 16;
  const int64_t each = p.prologue.flops() + p.epilogue.flops() + exponential + 4;
  return {static_cast<double>(each) * static_cast<double>(p.outer) * static_cast<double>(p.axis) * static_cast<double>(p.inner),
          bytes_read(p.body), bytes_written(p.body)};
}

Tolerance Softmax::tolerance(const Problem& p) { return {ToleranceClass::reduction, std::max<int64_t>(1, p.axis)}; }

}  // namespace rtx::kernels::softmax

#include <algorithm>

#include "ir/text.h"
#include "kernels/loopnest/loopnest.h"

namespace rtx::kernels::loopnest {

static_assert(KernelFamily<Family>);

std::string Family::key(const Problem& problem) {
  ir::TextOptions options;
  options.anonymous = true;
  options.types_on_every_value = true;
  return "loopnest\n" + ir::to_text(problem.body, options);
}

Space<Params> Family::space(const Problem& problem, const backend::Caps& caps) {
  Space<Params> out;
  if (caps.lanes_per_wave > 1) {  // a row a thread; small groups reach more cores
    const Params wide{128, 128}, narrow{32, 32};
    return out.axis("rows_per_group", &Params::rows_per_group, {32, 128})
        .axis("threads", &Params::threads, {32, 128})
        .require("a thread has one row", [](const Params& p) { return p.rows_per_group == p.threads; })
        .prefer(problem.rows >= 128 * 2 * std::max(caps.cores, 1) ? wide : narrow);
  }
  out.axis("rows_per_group", &Params::rows_per_group, {1, 4, 16, 64, 256, 1024});
  const double flops_per_row = problem.work.flops / static_cast<double>(std::max<int64_t>(problem.rows, 1));
  // A group worth some ten microseconds, but enough groups for all cores.
  Params best;
  while (best.rows_per_group < 1024 && flops_per_row * static_cast<double>(best.rows_per_group) < 20000 &&
         problem.rows >= best.rows_per_group * 4 * 4 * std::max(caps.cores, 1))
    best.rows_per_group *= 4;
  return out.prefer(best);
}

Work Family::work(const Problem& problem) { return problem.work; }
Tolerance Family::tolerance(const Problem& problem) { return problem.tolerance; }

}  // namespace rtx::kernels::loopnest

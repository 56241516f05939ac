// The norm family on groups of many threads: a team writes x to scratch, takes the row's statistics from there, and stores the results.
#include <algorithm>
#include <fmt/core.h>

#include "kernels/anchored.h"
#include "kernels/norm/norm.h"
#include "kernels/teams.h"

namespace rtx::kernels::norm {

Space<Params> space_gpu(const Problem& p, const backend::Caps& caps) {
  const auto work = Norm::work(p);
  const double memory = work.bytes() / std::max(1.0, caps.copy_gbps * 1e6);
  const int64_t columns = p.columns, width = std::min(row_vector(p.prologue, columns), row_vector(p.epilogue, columns));
  Params best;
  best.rows_per_group = 0;
  best.unroll = 1;
  best.threads = preferred_team(columns, width, p.rows, caps);
  return Space<Params>{}
      .axis("threads", &Params::threads, {32, 128, 256, 512, 1024})
      .axis("unroll", &Params::unroll, {1, 2})
      .axis("rows", &Params::rows_per_group, {0})
      .require("a team is no longer than four rows' worth of vectors", [=](const Params& c) { return c.threads == 32 || c.threads == best.threads || c.threads * width <= 4 * columns; })
      .prefer(best)
      .estimate([=](const Params& c) { return memory * (1.0 + 0.01 * static_cast<double>(c.unroll)); });
}

Result<backend::KernelPlan> emit_gpu(const Problem& p, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  const Team team = team_of(params.threads);
  backend::KernelPlan plan;
  plan.name = fmt::format("{}_{}_{}x{}", p.op, ir::name(p.dtype), p.rows, p.columns);
  plan.numerics_class = fmt::format("norm team {}", team.threads);
  const auto work = Norm::work(p);
  codegen::Source source(dialect, plan.name, "kernels/norm/emit_gpu.cpp", fmt::format("threads={} unroll={}", params.threads, params.unroll),
                         work_text(work.flops, work.bytes()));
  if (p.rows * p.columns == 0) {
    plan.text = source.take();
    return plan;
  }
  source.include("kernels/norm/device_gpu.h");
  Arguments arguments;
  source.open_kernel(plan.name, static_cast<int>(team.group));
  const auto in = arguments.bind(source, p.prologue), kept = arguments.bind(source, p.statistics), out = arguments.bind(source, p.epilogue);
  const RowPlace place = place_rows(team, p.rows, p.columns, caps);
  backend::Launch launch;
  launch.arguments = arguments.list();
  open_rows(source, team, p.rows, p.columns, place, static_cast<int64_t>(launch.arguments.size()));
  auto prologue = team_loop(team, p.columns, row_vector(p.prologue, p.columns), in);
  prologue.unroll = static_cast<int>(params.unroll);
  prologue.after = [&](codegen::Source& s, int, const std::string& i, const auto& value) { s.line(fmt::format("store(row + {}, {});", i, value(p.x))); };
  codegen::print_row(source, p.prologue, prologue);
  source.line("team_barrier<TEAM>();");
  const std::string epsilon = codegen::literal_text(ir::DType::f64, p.epsilon, 0);
  if (p.centred) {
    source.line(fmt::format("const row_norm::Centred centred = row_norm::{}<TEAM>(row, {}, {}, places);",
                            p.statistics.stores.empty() ? "centred" : "centred_carefully", p.columns, epsilon));
    source.line("const f32 shift = centred.shift, rest = centred.rest, spread = centred.spread;");
  } else {
    source.line(fmt::format("const f32 spread = row_norm::spread<TEAM>(row, {}, {}, places);", p.columns, epsilon));
  }
  const std::string mean = p.centred ? "f32(f64(shift) + f64(rest))" : "0.0f";
  if (!p.statistics.stores.empty()) {
    codegen::RowLoop statistics;
    statistics.inner = 1;
    statistics.outer = {{0, "r"}};
    statistics.count = "1";
    statistics.vector_width = 1;
    statistics.buffers = kept;
    statistics.leaf = [&](int leaf, int, const std::string&) { return leaf == kMean ? mean : std::string("spread"); };
    source.open("if (team_lane<TEAM>() == 0)");
    codegen::print_row(source, p.statistics, statistics);
    source.close();
  }
  if (!p.epilogue.stores.empty()) {
    auto epilogue = team_loop(team, p.columns, row_vector(p.epilogue, p.columns), out);
    epilogue.unroll = static_cast<int>(params.unroll);
    epilogue.leaf = [&](int leaf, int width, const std::string& i) -> std::string {
      if (leaf == kMean) return mean;
      if (leaf == kSpread) return "spread";
      const std::string x = fmt::format("load<{}>(row + {})", codegen::lanes_text(ir::DType::f32, width), i);
      return p.centred ? fmt::format("({} - shift - rest) * spread", x) : fmt::format("{} * spread", x);
    };
    codegen::print_row(source, p.epilogue, epilogue);
  }
  close_rows(source);

  if (place.workspace_bytes > 0) {
    plan.workspace_bytes = {place.workspace_bytes};
    launch.arguments.push_back({backend::BufferKind::workspace, 0});
  }
  launch.entry = plan.name;
  launch.grid.x = row_groups(team, p.rows);
  launch.group.x = team.group;
  launch.scratch_bytes = place.scratch_bytes;
  source.close_kernel(static_cast<int64_t>(launch.arguments.size()));
  plan.text = source.take();
  plan.steps = {launch};
  return plan;
}

}  // namespace rtx::kernels::norm

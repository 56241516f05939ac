// Softmax on groups of many threads. Row form: a team has a row in scratch. Columns form: neighbouring threads have neighbouring columns
// and walk down the axis three times (greatest, sum, result), which the caches serve.
#include <algorithm>
#include <fmt/core.h>

#include "kernels/anchored.h"
#include "kernels/softmax/softmax.h"
#include "kernels/teams.h"

namespace rtx::kernels::softmax {

namespace {

void rows_gpu(codegen::Source& source, const Problem& p, const Team& team, const std::map<int, std::string>& in, const std::map<int, std::string>& out) {
  auto prologue = team_loop(team, p.axis, row_vector(p.prologue, p.axis), in);
  prologue.after = [&](codegen::Source& s, int, const std::string& i, const auto& value) { s.line(fmt::format("store(row + {}, {});", i, value(p.x))); };
  codegen::print_row(source, p.prologue, prologue);
  source.line("team_barrier<TEAM>();");
  source.line(fmt::format("const f32 greatest = softmax::greatest<TEAM>(row, {}, places);", p.axis));
  source.line(fmt::format("const f32 sum = softmax::exponentials<TEAM, {}>(row, {}, greatest, places);", !p.logarithm, p.axis));
  source.line(p.logarithm ? "const f32 log_sum = math::log(sum);" : "const f32 scale = 1.f / sum;");
  source.line("team_barrier<TEAM>();");
  auto epilogue = team_loop(team, p.axis, row_vector(p.epilogue, p.axis), out);
  epilogue.leaf = [&](int, int width, const std::string& i) {
    return fmt::format("load<{}>(row + {})", codegen::lanes_text(ir::DType::f32, width), i) + (p.logarithm ? " - greatest - log_sum" : " * scale");
  };
  codegen::print_row(source, p.epilogue, epilogue);
}

void columns_gpu(codegen::Source& source, const Problem& p, int64_t threads, const std::map<int, std::string>& in, const std::map<int, std::string>& out) {
  const int64_t count = p.outer * p.inner;
  source.open("GROUP_LOOP(g)");
  source.line(fmt::format("const i64 column = g * {} + thread();", threads));
  source.open(fmt::format("if (column < {})", count));
  source.line(fmt::format("const i64 outer = column / {0}, place = column % {0};", p.inner));
  const codegen::ElementDag again = without_stores(p.prologue);
  const auto down = [&](const codegen::ElementDag& dag, const std::map<int, std::string>& buffers, const std::string& leaf,
                        const std::function<std::string(const std::string&)>& use) {
    codegen::RowLoop loop;
    loop.inner = 2;
    loop.outer = {{0, "outer"}, {1, "j"}};
    loop.at = "place";
    loop.vector_width = 1;
    loop.buffers = buffers;
    loop.leaf = [leaf](int, int, const std::string&) { return leaf; };
    if (use) loop.after = [&](codegen::Source& s, int, const std::string&, const auto& value) { s.line(use(value(p.x))); };
    codegen::print_row(source, dag, loop);
  };
  const std::string each = fmt::format("for (i64 j = 0; j < {}; ++j)", p.axis);
  source.line("f32 greatest = -__builtin_inff(), sum = 0;");
  source.open(each);
  down(p.prologue, in, {}, [](const std::string& x) { return "greatest = math::max(greatest, " + x + ");"; });
  source.close();
  source.open(each);
  down(again, in, {}, [](const std::string& x) { return "sum += scalar::exp(" + x + " - greatest);"; });
  source.close();
  source.line(p.logarithm ? "const f32 log_sum = math::log(sum);" : "const f32 scale = 1.f / sum;");
  source.open(each);
  source.line("f32 result;");
  source.open("");
  down(again, in, {}, [&](const std::string& x) {
    return "result = " + (p.logarithm ? x + " - greatest - log_sum;" : "scalar::exp(" + x + " - greatest) * scale;");
  });
  source.close();
  down(p.epilogue, out, "result", nullptr);
  source.close();
  source.close();
  source.close();
}

}  // namespace

Space<Params> space_gpu(const Problem& p, const backend::Caps& caps) {
  const double memory = Softmax::work(p).bytes() / std::max(1.0, caps.copy_gbps * 1e6);
  const bool columns = p.column_form;
  const int64_t width = std::min(row_vector(p.prologue, p.axis), row_vector(p.epilogue, p.axis)), axis = p.axis;
  Params best;
  best.rows_per_group = best.columns = 0;
  best.threads = columns ? (p.outer * p.inner >= 256 * int64_t{caps.cores} ? 128 : 32) : preferred_team(p.axis, width, p.outer, caps);
  return Space<Params>{}
      .axis("threads", &Params::threads, columns ? std::vector<int64_t>{32, 128, 256} : std::vector<int64_t>{32, 128, 256, 512, 1024})
      .axis("rows", &Params::rows_per_group, {0})
      .axis("columns", &Params::columns, {0})
      .require("a team is no longer than four rows' worth of vectors",
               [=](const Params& c) { return columns || c.threads == 32 || c.threads == best.threads || c.threads * width <= 4 * axis; })
      .prefer(best)
      .estimate([=](const Params&) { return memory; });
}

Result<backend::KernelPlan> emit_gpu(const Problem& p, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  backend::KernelPlan plan;
  plan.name = fmt::format("{}_{}_{}x{}", p.logarithm ? "log_softmax" : "softmax", ir::name(p.dtype), p.outer, p.axis);
  if (p.column_form) plan.name += fmt::format("x{}", p.inner);
  const Team team = team_of(params.threads);
  plan.numerics_class = p.column_form ? "softmax columns" : fmt::format("softmax team {}", team.threads);
  const auto work = Softmax::work(p);
  codegen::Source source(dialect, plan.name, "kernels/softmax/emit_gpu.cpp", fmt::format("threads={}", params.threads), work_text(work.flops, work.bytes()));
  if (p.outer * p.axis * p.inner == 0) {
    plan.text = source.take();
    return plan;
  }
  source.include("kernels/softmax/device_gpu.h");
  backend::Launch launch;
  launch.entry = plan.name;
  Arguments arguments;
  source.open_kernel(plan.name, static_cast<int>(p.column_form ? params.threads : team.group));
  const auto in = arguments.bind(source, p.prologue), out = arguments.bind(source, p.epilogue);
  launch.arguments = arguments.list();
  if (p.column_form) {
    columns_gpu(source, p, params.threads, in, out);
    launch.grid.x = ceil_div(p.outer * p.inner, params.threads);
    launch.group.x = params.threads;
  } else {
    const int64_t rows = p.outer * p.inner;
    const RowPlace place = place_rows(team, rows, p.axis, caps);
    open_rows(source, team, rows, p.axis, place, static_cast<int64_t>(launch.arguments.size()));
    rows_gpu(source, p, team, in, out);
    close_rows(source);
    if (place.workspace_bytes > 0) {
      plan.workspace_bytes = {place.workspace_bytes};
      launch.arguments.push_back({backend::BufferKind::workspace, 0});
    }
    launch.grid.x = row_groups(team, rows);
    launch.group.x = team.group;
    launch.scratch_bytes = place.scratch_bytes;
  }
  source.close_kernel(static_cast<int64_t>(launch.arguments.size()));
  plan.text = source.take();
  plan.steps = {launch};
  return plan;
}

}  // namespace rtx::kernels::softmax

// rtx tune: one problem without a model; prints what every candidate came to.
#include <nlohmann/json.hpp>

#include "rtx/options.h"
#include "rtx/pipeline_run.h"
#include "rtx/problems.h"

namespace rtx::tools {

Result<int> tune_command(const TuneCommand& command, const Common& common, Console& console) {
  RTX_CHECK([&]() -> Status {
    auto target = require_target(command.target, common.device);
    return target.ok() ? success() : Status(std::move(target).error());
  }());
  RTX_TRY(const ir::Graph graph, problem_graph(command.family, command.settings));
  if (command.settings.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& setting : settings_of(command.family)) rows.push_back({setting.name, setting.otherwise.empty() ? "(none)" : setting.otherwise, setting.meaning});
    console.table({"setting", "default", "meaning"}, rows);
    console.line();
  }
  WorkbenchOptions bench_options;
  bench_options.target = command.target;
  bench_options.device = common.device;
  bench_options.threads = common.threads;
  bench_options.jobs = common.jobs;
  RTX_TRY(auto bench, Workbench::open(bench_options, console));
  TuneOptions tune;
  tune.budget = tune.budget_per_op = command.budget;
  tune.deterministic = command.deterministic;
  RTX_TRY(const auto compiled, compile_graph(graph, *bench, pipeline_options(tune, common, console)));
  console.end_progress();
  nlohmann::json out = nlohmann::json::array();
  for (const auto& region : compiled.report.per_region) {
    nlohmann::json row = {{"region", region.name}, {"family", region.family}, {"parameters", region.parameters}, {"measured_ms", region.measured_ms},
                          {"flops", region.flops}, {"bytes", region.bytes}, {"tuning", region.tuning}, {"cache_hit", region.cache_hit}, {"candidates", nlohmann::json::array()}};
    std::vector<std::vector<std::string>> rows;
    for (const auto& tried : region.tried) {
      rows.push_back({tried.candidate.parameters.empty() ? "(one form)" : tried.candidate.parameters, tune::text(tried.outcome)});
      row["candidates"].push_back({{"parameters", tried.candidate.parameters}, {"outcome", tune::text(tried.outcome)}});
    }
    if (!rows.empty()) console.table({"candidate", "outcome"}, rows);
    const double ms = region.measured_ms;
    console.line(region.family + ": " + region.parameters + (ms > 0 ? ", " + number(ms, 4) + " ms, " + number(region.flops / (ms * 1e6)) + " GFLOP/s, " +
                                                                            number(region.bytes / (ms * 1e6)) + " GB/s" : std::string(", not timed")) + " (" + region.tuning + ")");
    out.push_back(std::move(row));
  }
  if (common.console.json) RTX_CHECK(console.json(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)));
  return 0;
}

}  // namespace rtx::tools

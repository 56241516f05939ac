// rtx verify: a compiled model against recorded data, or against the reference interpreter.
//
// Against the reference a whole model follows the several-regions rule: its error may be at most that of the same graph run node by
// node, each operator exact and each tensor rounded to its dtype. Both errors are printed.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "reference/reference.h"
#include "rtx/options.h"
#include "rtx/pipeline_run.h"
#include "validate/validate.h"

namespace rtx::tools {

namespace {

struct Row {
  std::string data, output;
  validate::Comparison comparison;
  double node_by_node = NAN;  // error of the node-by-node reference, norm
};

double norm_error(const ir::HostTensor& found, const reference::RefTensor& wanted) {
  double error = 0, norm = 0;
  for (int64_t i = 0; i < wanted.count(); ++i) {
    const double w = wanted.reals[static_cast<size_t>(i)], f = found.get_double(i);
    if (!std::isfinite(w) || !std::isfinite(f)) continue;
    error += (f - w) * (f - w), norm += w * w;
  }
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

// One compiled variant of the model: data sets of different shapes need one each.
struct Compiled {
  std::shared_ptr<const runtime::Program> program;
  ir::Graph graph;
};

Result<Compiled> compile_for(const VerifyCommand& command, const Common& common, Console& console, const ModelOptions& options,
                             const std::map<std::string, ir::HostTensor>& bound, std::unique_ptr<Workbench>& bench) {
  Compiled out;
  RTX_TRY(out.graph, load_model(command.model, options, bound));
  if (!bench) {
    WorkbenchOptions bench_options;
    bench_options.target = command.target;
    bench_options.threads = common.threads;
    bench_options.jobs = common.jobs;
    RTX_TRY(bench, Workbench::open(bench_options, console));
  }
  TuneOptions tune;
  tune.no_tune = !command.tune;
  RTX_TRY(compiler::Compiled compiled, compile_graph(out.graph, *bench, pipeline_options(tune, common, console)));
  console.end_progress();
  RTX_TRY(out.program, runtime::Program::from_plan(std::move(compiled.plan), load_options(bench.get(), common, console, true)));
  return out;
}

// Reference comparison of one run; with `all_tensors` the caller gets the first tensor of the recognised graph that departs.
Status compare_with_reference(const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs, const std::vector<ir::HostTensor>& outputs, const std::string& data,
                              std::vector<Row>* rows) {
  RTX_TRY(const auto exact, reference::run(graph, inputs));
  RTX_TRY(const auto rounded, reference::run(graph, inputs, {.round_each_op = true}));
  for (size_t i = 0; i < outputs.size(); ++i) {
    Row row{data, graph.output_name(i), {}, NAN};
    validate::Bounds bounds;
    if (exact[i].floating()) {
      // The region rule first; where several regions lost more, the node-by-node reference is the yardstick.
      row.comparison = validate::compare(row.output, outputs[i], exact[i], bounds);
      row.node_by_node = norm_error(reference::to_host(rounded[i]), exact[i]);
      if (!row.comparison.agrees && row.comparison.detail.norm_allowed > 0) {
        bounds.scale = std::max(1.0, row.node_by_node / row.comparison.detail.norm_allowed);
        row.comparison = validate::compare(row.output, outputs[i], exact[i], bounds);
      }
    } else {
      row.comparison = validate::compare(row.output, outputs[i], exact[i], bounds);
    }
    rows->push_back(std::move(row));
  }
  return success();
}

// Makes every intermediate tensor an output, compiles that graph, and names the first one that departs from the reference.
Result<std::string> first_departure(const VerifyCommand& command, const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs, const Common& common,
                                    Console& console, Workbench& bench) {
  ir::Graph all = graph;
  all.outputs.clear();
  all.output_names.clear();
  for (const auto& node : all.nodes)
    for (const auto id : node.outputs) {
      all.outputs.push_back(id);
      all.output_names.push_back(all.value(id).name);
    }
  TuneOptions tune;
  tune.no_tune = !command.tune;
  RTX_TRY(compiler::Compiled compiled, compile_graph(all, bench, pipeline_options(tune, common, console)));
  console.end_progress();
  RTX_TRY(auto program, runtime::Program::from_plan(std::move(compiled.plan), load_options(&bench, common, console, true)));
  RTX_TRY(auto session, Session::open(program, inputs));
  RTX_CHECK(session->run());
  std::vector<Row> rows;
  RTX_CHECK(compare_with_reference(all, inputs, session->outputs(), "all tensors", &rows));
  for (size_t i = 0; i < rows.size(); ++i)
    if (!rows[i].comparison.agrees) return "first tensor that departs: " + rows[i].comparison.detail.text() + "\n  made by " + all.describe(all.value(all.outputs[i]).producer);
  return std::string("with every tensor kept, none of " + std::to_string(rows.size()) + " departs from the reference");
}

}  // namespace

Result<int> verify_command(const VerifyCommand& command, const Common& common, Console& console) {
  RTX_CHECK([&]() -> Status {
    auto target = require_target(command.target);
    return target.ok() ? success() : Status(std::move(target).error());
  }());
  if (command.emulate) return user_error("--emulate needs a GPU target", "target " + command.target + " runs here as it is", "leave --emulate out");
  RTX_TRY(const auto info, import::inspect(command.model));
  std::unique_ptr<Workbench> bench;
  std::vector<Row> rows;
  std::vector<std::string> departures;
  if (!command.data.empty()) {
    RTX_TRY(const auto sets, load_data_sets(command.data));
    for (const auto& data : sets) {
      RTX_TRY(const auto named, by_name(info, data));
      ModelOptions options = command.model_options;
      std::map<std::string, ir::HostTensor> bound;
      bind_from_data(info, named, &options, &bound);
      RTX_TRY(const auto compiled, compile_for(command, common, console, options, bound, bench));
      RTX_TRY(const auto inputs, plan_inputs(compiled.program->plan(), named, std::nullopt));
      RTX_TRY(auto session, Session::open(compiled.program, inputs));
      RTX_CHECK(session->run());
      if (data.outputs.size() != session->outputs().size())
        return user_error("the data in " + data.directory + " does not fit the model",
                          "it has " + std::to_string(data.outputs.size()) + " outputs, the model " + std::to_string(session->outputs().size()));
      bool agrees = true;
      for (size_t i = 0; i < data.outputs.size(); ++i) {
        const std::string name = compiled.graph.output_name(i);
        rows.push_back({data.directory.substr(data.directory.find_last_of('/') + 1), name,
                        validate::compare_recorded(name, session->outputs()[i], data.outputs[i], command.noise), NAN});
        agrees &= rows.back().comparison.agrees;
      }
      if (command.all_tensors && !agrees) {
        RTX_TRY(std::string words, first_departure(command, compiled.graph, inputs, common, console, *bench));
        departures.push_back(std::move(words));
      }
    }
  } else {
    RTX_TRY(const auto compiled, compile_for(command, common, console, command.model_options, {}, bench));
    RTX_TRY(const auto inputs, plan_inputs(compiled.program->plan(), {}, command.random.value_or(1)));
    RTX_TRY(auto session, Session::open(compiled.program, inputs));
    RTX_CHECK(session->run());
    RTX_CHECK(compare_with_reference(compiled.graph, inputs, session->outputs(), "seed " + std::to_string(command.random.value_or(1)), &rows));
    if (command.all_tensors) {
      RTX_TRY(std::string words, first_departure(command, compiled.graph, inputs, common, console, *bench));
      departures.push_back(std::move(words));
    }
  }

  const bool agree = std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.comparison.agrees; });
  if (common.console.json) {
    nlohmann::json out = {{"agrees", agree}, {"outputs", nlohmann::json::array()}, {"departures", departures}};
    for (const auto& row : rows) {
      const auto& d = row.comparison.detail;
      const auto finite = [](double v) { return std::isfinite(v) ? nlohmann::json(v) : nlohmann::json(nullptr); };
      out["outputs"].push_back({{"data", row.data}, {"output", row.output}, {"agrees", row.comparison.agrees}, {"norm_error", finite(d.norm_error)},
                                {"norm_allowed", finite(d.norm_allowed)}, {"node_by_node_error", finite(row.node_by_node)},
                                {"max_difference", finite(d.max_difference)}, {"first_wrong", d.first_wrong}, {"first_nan", d.first_nan}, {"report", d.text()}});
    }
    RTX_CHECK(console.json(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)));
  } else {
    std::vector<std::vector<std::string>> table;
    for (const auto& row : rows)
      table.push_back({row.data, row.output, row.comparison.agrees ? "agrees" : "WRONG", number(row.comparison.detail.norm_error), number(row.comparison.detail.norm_allowed),
                       number(row.node_by_node), number(row.comparison.detail.max_difference)});
    console.table({"data", "output", "verdict", "error", "allowed", "node by node", "largest difference"}, table);
    for (const auto& row : rows)
      if (!row.comparison.agrees) console.line(row.comparison.detail.text());
    for (const auto& words : departures) console.line(words);
  }
  return agree ? 0 : 1;
}

}  // namespace rtx::tools

#include "rtx/verification.h"

#include <algorithm>
#include <cmath>

#include "reference/reference.h"
#include "validate/whole.h"

namespace rtx::tools {

namespace {

// A whole model follows the several-regions rule (docs/adr/0009-numbers-of-whole-models.md).
Status compare_with_reference(const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs, const std::vector<ir::HostTensor>& outputs, const std::string& data,
                              std::vector<VerifiedOutput>* rows) {
  RTX_TRY(const auto exact, reference::run(graph, inputs));
  RTX_TRY(const auto rounded, reference::run(graph, inputs, {.round_each_op = true}));
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto whole = validate::compare_whole(graph, i, outputs[i], exact[i], rounded[i]);
    VerifiedOutput row{data, graph.output_name(i), std::move(whole.comparison)};
    if (exact[i].floating()) {
      row.node_by_node = whole.node_by_node;
      row.region_tolerance = whole.region_tolerance;
      row.judged_by = whole.judged_by_nodes ? "node by node" : "region tolerance";
    } else {
      row.judged_by = "equality";
    }
    rows->push_back(std::move(row));
  }
  return success();
}

}  // namespace

bool Verification::agrees() const {
  return std::all_of(outputs.begin(), outputs.end(), [](const VerifiedOutput& output) { return output.comparison.agrees; });
}

std::string Verification::first_disagreement() const {
  for (const auto& output : outputs)
    if (!output.comparison.agrees) return output.data + ": " + output.comparison.detail.text();
  return {};
}

Result<Verifier::Compiled> Verifier::compile(const VerifyCommand& command, const ModelOptions& options, const std::map<std::string, ir::HostTensor>& bound,
                                             Verification* out) {
  RTX_TRY(ir::Graph graph, load_model(command.model, options, bound));
  return compile(command, std::move(graph), out);
}

Result<Verifier::Compiled> Verifier::compile(const VerifyCommand& command, ir::Graph graph, Verification* out) {
  if (!bench_) {
    WorkbenchOptions bench_options;
    bench_options.target = command.target;
    bench_options.arch = command.arch;
    bench_options.device = common_.device;
    bench_options.threads = common_.threads;
    bench_options.jobs = common_.jobs;
    bench_options.workers = workers_;
    RTX_TRY(bench_, Workbench::open(bench_options, console_));
  }
  TuneOptions tune;
  tune.no_tune = !command.tune;
  RTX_TRY(compiler::Compiled compiled, compile_graph(graph, *bench_, pipeline_options(tune, common_, console_)));
  console_.end_progress();
  const auto& report = compiled.report;
  out->regions += report.regions, out->kernels += report.kernels, out->hits += report.hits, out->compiles += report.compiles;
  for (const auto& region : report.per_region)
    for (const auto& tried : region.tried)
      if (!std::holds_alternative<tune::Measured>(tried.outcome))
        out->rejected.push_back(region.family + " " + tried.candidate.parameters + ": " + tune::text(tried.outcome));
  Compiled result;
  RTX_TRY(result.program, runtime::Program::from_plan(std::move(compiled.plan), load_options(bench_.get(), common_, console_, true)));
  result.graph = std::move(graph);
  return result;
}

// Makes every intermediate tensor an output, compiles that graph, and names the first one that departs from the reference.
Result<std::string> Verifier::first_departure(const VerifyCommand& command, const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs) {
  ir::Graph all = graph;
  all.outputs.clear();
  all.output_names.clear();
  for (const auto& node : all.nodes)
    for (const auto id : node.outputs) {
      all.outputs.push_back(id);
      all.output_names.push_back(all.value(id).name);
    }
  Verification ignored;
  RTX_TRY(const Compiled compiled, compile(command, all, &ignored));
  RTX_TRY(auto session, Session::open(compiled.program, inputs));
  RTX_CHECK(session->run());
  std::vector<VerifiedOutput> rows;
  RTX_CHECK(compare_with_reference(all, inputs, session->outputs(), "all tensors", &rows));
  for (size_t i = 0; i < rows.size(); ++i)
    if (!rows[i].comparison.agrees) return "first tensor that departs: " + rows[i].comparison.detail.text() + "\n  made by " + all.describe(all.value(all.outputs[i]).producer);
  return std::string("with every tensor kept, none of " + std::to_string(rows.size()) + " departs from the reference");
}

Status Verifier::against_data(const VerifyCommand& command, const DataSet& data, Verification* out) {
  RTX_TRY(const auto info, import::inspect(command.model));
  RTX_TRY(const auto named, by_name(info, data));
  ModelOptions options = command.model_options;
  std::map<std::string, ir::HostTensor> bound;
  bind_from_data(info, named, &options, &bound);
  RTX_TRY(const auto compiled, compile(command, options, bound, out));
  RTX_TRY(const auto inputs, plan_inputs(compiled.program->plan(), named, std::nullopt));
  RTX_TRY(auto session, Session::open(compiled.program, inputs));
  RTX_CHECK(session->run());
  if (data.outputs.size() != session->outputs().size())
    return user_error("the data in " + data.directory + " does not fit the model",
                      "it has " + std::to_string(data.outputs.size()) + " outputs, the model " + std::to_string(session->outputs().size()));
  bool agrees = true;
  for (size_t i = 0; i < data.outputs.size(); ++i) {
    const std::string name = compiled.graph.output_name(i);
    out->outputs.push_back({data.directory.substr(data.directory.find_last_of('/') + 1), name,
                            validate::compare_recorded(name, session->outputs()[i], data.outputs[i], command.noise)});
    agrees &= out->outputs.back().comparison.agrees;
  }
  if (command.all_tensors && !agrees) {
    RTX_TRY(std::string words, first_departure(command, compiled.graph, inputs));
    out->departures.push_back(std::move(words));
  }
  return success();
}

Status Verifier::against_reference(const VerifyCommand& command, Verification* out) {
  RTX_TRY(const auto named, load_named_tensors(command.inputs));
  ModelOptions options = command.model_options;
  std::map<std::string, ir::HostTensor> bound;
  if (!named.empty()) {
    RTX_TRY(const auto info, import::inspect(command.model));
    bind_from_data(info, named, &options, &bound);
  }
  RTX_TRY(const auto compiled, compile(command, options, bound, out));
  const uint64_t seed = command.random.value_or(1);
  RTX_TRY(const auto inputs, plan_inputs(compiled.program->plan(), named, seed));
  RTX_TRY(auto session, Session::open(compiled.program, inputs));
  RTX_CHECK(session->run());
  RTX_CHECK(compare_with_reference(compiled.graph, inputs, session->outputs(), named.empty() ? "seed " + std::to_string(seed) : "given inputs", &out->outputs));
  if (command.all_tensors) {
    RTX_TRY(std::string words, first_departure(command, compiled.graph, inputs));
    out->departures.push_back(std::move(words));
  }
  return success();
}

Result<Verification> Verifier::verify(const VerifyCommand& command) {
  Verification out;
  if (command.data.empty()) {
    RTX_CHECK(against_reference(command, &out));
    return out;
  }
  RTX_TRY(const auto sets, load_data_sets(command.data));
  for (const auto& data : sets) RTX_CHECK(against_data(command, data, &out));
  return out;
}

}  // namespace rtx::tools

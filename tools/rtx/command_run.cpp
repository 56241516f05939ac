// rtx run: a bundle or a model on given or random inputs.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "import/npy.h"
#include "rtx/interrupt.h"
#include "rtx/options.h"
#include "rtx/pipeline_run.h"
#include "rtx/rebuild.h"
#include "rtx/usage.h"

namespace rtx::tools {

namespace {

std::string file_name_of(const std::string& tensor) {
  std::string out;
  for (const char c : tensor) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' ? c : '_';
  return out;
}

// "f32[1,384], mean 0.1, from -1 to 2": enough to see that something came out.
std::string describe(const ir::HostTensor& tensor) {
  double low = INFINITY, high = -INFINITY, sum = 0;
  int64_t odd = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const double v = tensor.get_double(i);
    if (!std::isfinite(v)) {
      ++odd;
      continue;
    }
    low = std::min(low, v), high = std::max(high, v), sum += v;
  }
  std::string out = std::string(ir::name(tensor.dtype())) + ir::text(tensor.extents());
  if (tensor.count() > odd) out += ", mean " + number(sum / static_cast<double>(tensor.count() - odd)) + ", from " + number(low) + " to " + number(high);
  if (odd > 0) out += ", " + std::to_string(odd) + " not finite";
  return out;
}

// Where each output goes, before anything runs: none may be a file that this command reads, or another output's.
Result<std::vector<std::string>> output_files(const RunCommand& command, const Common& common, const bundle::Plan& plan) {
  std::vector<std::string> files;
  if (command.output_dir.empty()) return files;
  for (const auto& output : plan.outputs) {
    std::string path = command.output_dir + "/" + file_name_of(output.name);
    while (std::find(files.begin(), files.end(), path + ".npy") != files.end()) path += "_";
    files.push_back(path + ".npy");
    RTX_CHECK(refuse_to_overwrite(files.back(), {command.file, common.console.log_file}));
    for (const auto& input : command.inputs) RTX_CHECK(refuse_to_overwrite(files.back(), {input.substr(input.find('=') + 1)}));
    RTX_CHECK(can_write_file(files.back()));
  }
  return files;
}

}  // namespace

Result<int> run_command(const RunCommand& command, const Common& common, Console& console) {
  if (!file_exists(command.file)) return user_error("cannot read " + command.file, directory_exists(command.file) ? "it is a folder" : "there is no such file");
  const bool bundle = is_bundle(command.file);
  if (bundle) {
    for (const auto* names : {&model_option_names(), &search_option_names()}) RTX_CHECK(refuse_options(common, *names, "a bundle is compiled already"));
    RTX_CHECK(refuse_options(common, {"--target"}, "a bundle is compiled already"));
  } else {
    RTX_CHECK(refuse_options(common, {"--allow-unsigned"}, "a model carries no signature"));
  }
  RTX_TRY(const auto named, load_named_tensors(command.inputs));
  if (!command.output_dir.empty()) RTX_CHECK(make_directories(command.output_dir));
  nlohmann::json out;
  std::shared_ptr<const runtime::Program> program;
  std::unique_ptr<Workbench> bench;
  if (bundle) {
    auto load = load_options(nullptr, common, console, command.allow_unsigned);
    // Where its target is not here, the loader refuses it with both names.
    if (const std::string target = target_of_bundle(command.file); !target.empty() && (target != "cpu" || common.device != 0)) {
      auto device = make_device(target, common.threads, {}, common.device);
      if (device.ok()) load.device = *device;
      else if (common.device != 0) return std::move(device).error();
    }
    load.rebuild = rebuild_callback(common, console);
    RTX_TRY(program, runtime::Program::load(command.file, load));
    out["cache_hit_pct"] = nullptr;
    out["compiles"] = 0;
  } else {
    ModelOptions model_options = command.model_options;
    std::map<std::string, ir::HostTensor> bound;
    RTX_TRY(const auto info, import::inspect(command.file));
    bind_from_data(info, named, &model_options, &bound);
    RTX_TRY(const ir::Graph graph, load_model(command.file, model_options, bound));
    WorkbenchOptions bench_options;
    bench_options.target = command.target;
    bench_options.device = common.device;
    bench_options.threads = common.threads;
    bench_options.jobs = common.jobs;
    RTX_TRY(bench, Workbench::open(bench_options, console));
    TuneOptions tune;
    tune.no_tune = command.no_tune;
    tune.deterministic = command.deterministic;
    RTX_TRY(compiler::Compiled compiled, compile_graph(graph, *bench, pipeline_options(tune, common, console)));
    console.end_progress();
    out["cache_hit_pct"] = compiled.report.cache_hit_pct();
    out["compiles"] = compiled.report.compiles;
    RTX_TRY(program, runtime::Program::from_plan(std::move(compiled.plan), load_options(bench.get(), common, console, true)));
  }
  const auto& plan = program->plan();
  RTX_TRY(const auto inputs, plan_inputs(plan, named, command.random));
  for (const auto& value : plan.specialized) {
    const auto found = named.find(value.info.name);
    if (found == named.end()) continue;
    const bool same = found->second.dtype() == value.info.dtype && found->second.extents() == value.info.extents &&
                      std::memcmp(found->second.bytes(), value.bytes.data(), value.bytes.size()) == 0;
    if (!same)
      return user_error("input '" + value.info.name + "' differs from the value the model was compiled for", "shapes depend on it", "compile again with this value");
  }
  RTX_TRY(const auto files, output_files(command, common, plan));
  RTX_TRY(auto session, Session::open(program, inputs));
  RTX_CHECK(session->run());
  RTX_TRY(const double seconds, session->time_once());

  nlohmann::json outputs = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const auto& tensor = session->outputs()[i];
    const std::string digest = blake2b_hex(tensor.bytes(), static_cast<size_t>(tensor.byte_size()), 16);
    outputs.push_back({{"name", plan.outputs[i].name}, {"dtype", ir::name(tensor.dtype())}, {"shape", tensor.extents()}, {"blake2b", digest}});
    rows.push_back({plan.outputs[i].name, describe(tensor), digest});
    if (files.empty()) continue;
    const Uninterrupted until_written;
    RTX_CHECK(import::write_npy(files[i], tensor));
  }
  const auto report = program->report();
  out["outputs"] = outputs;
  out["kernels"] = plan.kernels.size();
  out["verdict"] = report.verdict;
  out["aot_load_ms"] = report.load_ms;
  out["constants_ms"] = report.constants_ms;
  out["context_ms"] = report.context_ms;
  out["synth_ms"] = seconds * 1e3;
  const auto compiled_summary = nlohmann::json::parse(plan.summary, nullptr, false);
  for (const char* field : {"baseline_ms", "win_pct"}) out[field] = compiled_summary.is_object() && compiled_summary.contains(field) ? compiled_summary[field] : nullptr;
  if (common.console.json) {
    RTX_CHECK(console.json(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)));
    return 0;
  }
  console.table({"output", "value", "blake2b"}, rows);
  console.line("loaded in " + number(report.load_ms) + " ms (constants " + number(report.constants_ms) + " ms, verdict " + report.verdict + "), ran in " + number(seconds * 1e3, 4) + " ms");
  return 0;
}

}  // namespace rtx::tools

#include "rtx/summary.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "rtx/interrupt.h"

namespace rtx::tools {

namespace {

using nlohmann::json;

json optional_number(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

json layers_json(const std::vector<Layer>& layers) {
  json out = json::array();
  for (const auto& layer : layers) out.push_back({{"family", layer.family}, {"ms", layer.ms}, {"steps", layer.count}});
  return out;
}

Result<double> time_unless_interrupted(Session& session) {
  if (interrupted()) return error_of(ErrorKind::interrupted, "interrupted", "kernels tuned so far are kept in the cache", "run the command again to go on");
  return session.time_once();
}

// Time by family: the median of several timed runs, step by step.
Result<std::vector<Layer>> time_by_family(Session& session) {
  constexpr int kRuns = 9;
  std::vector<std::vector<double>> per_step;
  std::vector<runtime::StepTime> steps;
  for (int run = 0; run < kRuns; ++run) {
    RTX_TRY(steps, session.run_timed());
    per_step.resize(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) per_step[i].push_back(steps[i].ms);
  }
  std::map<std::string, Layer> families;
  const auto& plan = session.program().plan();
  for (size_t i = 0; i < steps.size() && i < plan.steps.size(); ++i) {
    auto& samples = per_step[i];
    std::nth_element(samples.begin(), samples.begin() + kRuns / 2, samples.end());
    const auto& kernel = plan.kernels[static_cast<size_t>(plan.steps[i].kernel)];
    const std::string family = kernel.numerics_class == "vendor" ? "vendor gemm" : kernel.family;
    auto& layer = families[family];
    layer.family = family;
    layer.count = layer.ms == 0 ? 1 : layer.count + 1;
    layer.ms += samples[kRuns / 2];
  }
  std::vector<Layer> out;
  for (auto& [name, layer] : families) out.push_back(layer);
  std::sort(out.begin(), out.end(), [](const Layer& a, const Layer& b) { return a.ms > b.ms; });
  return out;
}

}  // namespace

std::optional<double> Summary::win_pct() const {
  if (!baseline_ms || !synth_ms || *baseline_ms <= 0) return std::nullopt;
  return 100.0 * (*baseline_ms - *synth_ms) / *baseline_ms;
}

std::string Summary::json() const {
  nlohmann::json out;
  out["model"] = model;
  out["bundle"] = bundle.empty() ? nlohmann::json(nullptr) : nlohmann::json(bundle);
  out["verdict"] = verdict.empty() ? nlohmann::json(nullptr) : nlohmann::json(verdict);
  out["regions"] = report.regions;
  out["kernels"] = report.kernels;
  out["cache_hits"] = report.hits;
  out["cache_misses"] = report.misses;
  out["cache_hit_pct"] = report.cache_hit_pct();
  out["compiles"] = report.compiles;
  out["compile_seconds"] = report.seconds;
  out["baseline_ms"] = optional_number(baseline_ms);
  out["synth_ms"] = optional_number(synth_ms);
  out["win_pct"] = optional_number(win_pct());
  out["faster"] = faster;
  out["baseline_interval_ms"] = {optional_number(baseline_low_ms), optional_number(baseline_high_ms)};
  out["synth_interval_ms"] = {optional_number(synth_low_ms), optional_number(synth_high_ms)};
  out["aot_load_ms"] = optional_number(load_ms);
  out["bundle_bytes"] = bundle_bytes;
  out["arena_bytes"] = arena_bytes;
  out["baseline_regions"] = baseline_regions;
  out["synth_time"] = layers_json(synth_layers);
  out["baseline_time"] = layers_json(baseline_layers);
  nlohmann::json regions = nlohmann::json::array();
  for (const auto& region : report.per_region)
    regions.push_back({{"name", region.name}, {"family", region.family}, {"parameters", region.parameters}, {"key", region.digest},
                       {"cache_hit", region.cache_hit}, {"shared", region.shared}, {"tuning", region.tuning}, {"measured_ms", region.measured_ms},
                       {"flops", region.flops}, {"bytes", region.bytes}});
  out["per_region"] = regions;
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

Status measure_model(const ir::Graph& graph, const compiler::Compiled& compiled, bool baseline, const compiler::Options& options, Workbench& bench,
                     const Common& common, Console& console, Summary* summary) {
  summary->arena_bytes = compiled.plan.arena_bytes;
  if (bench.device().caps().has("emulated")) return success();  // times mean nothing, and take long
  const auto load = load_options(&bench, common, console, true);
  RTX_TRY(const auto inputs, plan_inputs(compiled.plan, {}, options.seed));
  RTX_TRY(auto program, runtime::Program::from_plan(compiled.plan, load));
  RTX_TRY(auto synth, Session::open(program, inputs));
  synth->capture_runs();
  std::vector<std::function<Result<double>()>> subjects = {[&] { return time_unless_interrupted(*synth); }};
  std::unique_ptr<Session> unfused;
  if (baseline) {
    RTX_TRY(compiler::Compiled plain, compile_baseline(graph, bench, options));
    console.end_progress();
    summary->baseline_regions = plain.report.regions;
    RTX_TRY(auto baseline_program, runtime::Program::from_plan(std::move(plain.plan), load));
    RTX_TRY(unfused, Session::open(std::move(baseline_program), inputs));
    subjects.emplace_back([&] { return time_unless_interrupted(*unfused); });
    RTX_CHECK(check_same_results(*synth, *unfused));
  }
  // Rounds by what one run costs: about three seconds in all.
  RTX_TRY(const double once, synth->time_once());
  const int rounds = static_cast<int>(std::clamp(1.5 / std::max(once, 1e-5), 5.0, 60.0));
  RTX_TRY(const auto samples, measure::interleave(subjects, rounds, 3));
  if (samples[0].seconds.empty()) return success();
  summary->synth_ms = samples[0].median() * 1e3;
  summary->synth_low_ms = samples[0].interval_low() * 1e3;
  summary->synth_high_ms = samples[0].interval_high() * 1e3;
  RTX_TRY(summary->synth_layers, time_by_family(*synth));
  if (baseline && !samples[1].seconds.empty()) {
    summary->baseline_ms = samples[1].median() * 1e3;
    summary->baseline_low_ms = samples[1].interval_low() * 1e3;
    summary->baseline_high_ms = samples[1].interval_high() * 1e3;
    summary->faster = measure::faster(samples[0], samples[1]);
    RTX_TRY(summary->baseline_layers, time_by_family(*unfused));
  }
  return success();
}

void print_summary(const Summary& summary, const compiler::Compiled& compiled, Console& console) {
  const auto& report = summary.report;
  std::vector<std::vector<std::string>> rows;
  struct Group {
    int regions = 0;
    const compiler::RegionReport* first = nullptr;
  };
  std::map<int, Group> by_kernel;
  for (const auto& region : report.per_region) {
    auto& group = by_kernel[region.kernel];
    if (!group.first) group.first = &region;
    ++group.regions;
  }
  for (const auto& [kernel, group] : by_kernel) {
    const auto& region = *group.first;
    std::string speed = "-";
    if (region.measured_ms > 0) {
      const double gflops = region.flops / (region.measured_ms * 1e6), gbps = region.bytes / (region.measured_ms * 1e6);
      speed = gflops > 4 * gbps ? number(gflops) + " GFLOP/s" : number(gbps) + " GB/s";
    }
    rows.push_back({compiled.plan.kernels[static_cast<size_t>(kernel)].name, std::to_string(group.regions), region.measured_ms > 0 ? number(region.measured_ms) : "-",
                    speed, region.parameters.empty() ? "-" : region.parameters, region.tuning});
  }
  console.table({"kernel", "regions", "ms", "speed", "parameters", "chosen"}, rows);
  console.line();
  rows.clear();
  rows.push_back({"regions, kernels", std::to_string(report.regions) + ", " + std::to_string(report.kernels)});
  if (summary.baseline_ms)
    rows.push_back({"unfused baseline", number(*summary.baseline_ms, 4) + " ms (" + number(*summary.baseline_low_ms, 4) + " to " + number(*summary.baseline_high_ms, 4) + ")"});
  if (summary.synth_ms)
    rows.push_back({"synthesised", number(*summary.synth_ms, 4) + " ms (" + number(*summary.synth_low_ms, 4) + " to " + number(*summary.synth_high_ms, 4) + ")"});
  if (auto win = summary.win_pct()) rows.push_back({"win", number(*win) + " %" + (summary.faster ? "" : " (within the spread)")});
  const auto where = [](const std::vector<Layer>& layers) {
    std::string text;
    for (size_t i = 0; i < layers.size() && i < 5; ++i) text += (i ? ", " : "") + layers[i].family + " " + number(layers[i].ms) + " ms";
    return text;
  };
  if (!summary.baseline_layers.empty()) rows.push_back({"time, baseline", where(summary.baseline_layers)});
  if (!summary.synth_layers.empty()) rows.push_back({"time, synthesised", where(summary.synth_layers)});
  rows.push_back({"kernel cache", number(report.cache_hit_pct()) + " % hits, " + std::to_string(report.compiles) + " compiles"});
  rows.push_back({"activations", human_bytes(summary.arena_bytes)});
  if (!summary.bundle.empty()) {
    rows.push_back({"bundle", summary.bundle + ", " + human_bytes(summary.bundle_bytes)});
    if (summary.load_ms) rows.push_back({"bundle load", number(*summary.load_ms) + " ms, verdict " + summary.verdict});
  }
  rows.push_back({"time to compile", number(report.seconds) + " s"});
  console.table({"what", "figure"}, rows);
}

}  // namespace rtx::tools

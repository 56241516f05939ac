// rtx explain: what the compiler sees and decides, without compiling anything.
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "fuse/recognise.h"
#include "fuse/region.h"
#include "ir/text.h"
#include "kernels/family.h"
#include "rtx/footprint.h"
#include "rtx/options.h"
#include "rtx/workbench.h"

namespace rtx::tools {

namespace {

using nlohmann::json;

std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return "\"" + out + "\"";
}

Status write_dot(const ir::Graph& graph, const fuse::Partition& partition, const std::string& path) {
  std::string out = "digraph model {\n  rankdir=TB; node [shape=box, fontname=\"sans-serif\"];\n";
  for (size_t r = 0; r < partition.regions.size(); ++r) {
    const auto& region = partition.regions[r];
    out += "  subgraph cluster_" + std::to_string(r) + " {\n    label=" + quoted(region.pattern + ": " + region.name) + ";\n";
    for (const auto id : region.nodes) out += "    n" + std::to_string(id) + " [label=" + quoted(std::string(ir::name(graph.node(id).op))) + "];\n";
    out += "  }\n";
  }
  for (const auto id : partition.aliases) out += "  n" + std::to_string(id) + " [label=\"reshape (no kernel)\", style=dashed];\n";
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    for (const auto input : graph.nodes[n].inputs) {
      if (input == ir::kNoValue || graph.is_constant(input)) continue;
      const auto producer = graph.value(input).producer;
      if (producer != ir::kNoNode) out += "  n" + std::to_string(producer) + " -> n" + std::to_string(n) + ";\n";
      else out += "  " + quoted(graph.value(input).name) + " [shape=ellipse];\n  " + quoted(graph.value(input).name) + " -> n" + std::to_string(n) + ";\n";
    }
  return write_file_atomic(path, out + "}\n");
}

}  // namespace

Result<int> explain_command(const ExplainCommand& command, const Common& common, Console& console) {
  RTX_CHECK([&]() -> Status {
    auto target = require_target(command.target, common.device);
    return target.ok() ? success() : Status(std::move(target).error());
  }());
  RTX_TRY(const ir::Graph graph, load_model(command.model, command.model_options));
  WorkbenchOptions bench_options;
  bench_options.target = command.target;
  bench_options.device = common.device;
  bench_options.threads = common.threads;
  RTX_TRY(auto bench, Workbench::open(bench_options, console));
  const auto tools = bench->toolbox();
  const auto& caps = bench->device().caps();

  std::vector<fuse::Rewrite> rewrites;
  const ir::Graph recognised = fuse::recognise(graph, {}, &rewrites);
  RTX_TRY(const fuse::Partition partition, fuse::partition(recognised, kernels::patterns()));
  if (!command.dot.empty()) RTX_CHECK(write_dot(recognised, partition, command.dot));

  json out = {{"nodes", graph.nodes.size()}, {"nodes_after_recognition", recognised.nodes.size()}, {"regions", json::array()}, {"rewrites", json::array()}, {"refusals", json::array()}};
  console.line("graph: " + std::to_string(graph.nodes.size()) + " nodes, after recognition " + std::to_string(recognised.nodes.size()) + ", in " +
               std::to_string(partition.regions.size()) + " regions (" + std::to_string(partition.aliases.size()) + " reshapes run nothing)");
  if (common.console.verbose) console.line(ir::to_text(recognised));
  for (const auto& rewrite : rewrites) {
    console.line("  " + rewrite.where + " -> " + rewrite.rule);
    out["rewrites"].push_back({{"where", rewrite.where}, {"rule", rewrite.rule}});
  }
  console.line();
  bool printed = false;
  for (const auto& region : partition.regions) {
    RTX_TRY(const auto problem, kernels::family(region.pattern)->bind(region.body));
    std::vector<kernels::Excluded> excluded;
    const auto candidates = problem->candidates(caps, &excluded);
    if (!command.source.empty()) {
      if (region.name != command.source || candidates.empty()) continue;
      RTX_TRY(const auto plan, problem->emit(candidates.front().parameters, caps, tools.dialect));
      console.line(plan.text);
      out["source"] = plan.text;
      printed = true;
      break;
    }
    const auto work = problem->work();
    console.line("region " + region.name + ": " + region.pattern + ", " + std::to_string(region.nodes.size()) + " nodes, " + number(work.flops / 1e6) + " Mflop, " +
                 number(work.bytes() / 1e6) + " MB");
    json row = {{"name", region.name}, {"family", region.pattern}, {"nodes", json::array()}, {"flops", work.flops}, {"bytes", work.bytes()}, {"candidates", json::array()}, {"excluded", json::array()}};
    for (const auto id : region.nodes) {
      console.line("    " + recognised.describe(id));
      row["nodes"].push_back(recognised.describe(id));
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
      row["candidates"].push_back({{"parameters", candidates[i].parameters}, {"estimate_ms", candidates[i].estimate_ms}, {"preferred", candidates[i].preferred}});
      if (i < 3 || common.console.verbose)
        console.line("  candidate " + (candidates[i].parameters.empty() ? std::string("(one form)") : candidates[i].parameters) +
                     (candidates[i].estimate_ms > 0 ? ", estimate " + number(candidates[i].estimate_ms) + " ms" : "") + (candidates[i].preferred ? ", preferred" : ""));
    }
    if (candidates.size() > 3 && !common.console.verbose) console.line("  and " + std::to_string(candidates.size() - 3) + " more (-v lists them)");
    std::map<std::string, int> by_rule;
    for (const auto& item : excluded) {
      ++by_rule[item.rule];
      row["excluded"].push_back({{"parameters", item.parameters}, {"rule", item.rule}});
    }
    for (const auto& [rule, count] : by_rule) console.line("  excluded " + std::to_string(count) + ": " + rule);
    // What tuning on this machine has already found out.
    {
      for (const auto& [digest, record] : tools.cache->list()) {
        const auto known = cache::Key::parse(record.key_text);
        if (!known || known->op != region.pattern || known->problem != problem->key() || known->device != caps.device) continue;
        console.line("  chosen before: " + record.parameters + (record.measured_ms > 0 ? ", " + number(record.measured_ms) + " ms" : "") + " (" + record.tuning + ")");
        if (common.console.verbose) {
          for (const auto& [parameters, ms] : record.timings) console.line("    " + parameters + ": " + number(ms) + " ms");
          for (const auto& [parameters, reason] : record.rejected) console.line("    " + parameters + ": " + reason);
        }
        row["chosen"] = {{"parameters", record.parameters}, {"measured_ms", record.measured_ms}, {"timings", record.timings}, {"rejected", record.rejected}, {"takes", json::array()}};
        const auto entry = tools.cache->find(*known);
        const auto plan = problem->emit(record.parameters, caps, tools.dialect);
        if (entry && plan.ok()) {
          std::vector<Launched> launches;
          for (const auto& launch : plan->steps) launches.push_back({launch.entry, launch.group.count(), launch.scratch_bytes});
          for (const auto& one : footprints(caps.target, caps.arch, entry->binary, launches)) {
            console.line("    takes " + text(one));
            row["chosen"]["takes"].push_back(text(one));
          }
        }
        break;
      }
    }
    out["regions"].push_back(std::move(row));
  }
  if (!command.source.empty() && !printed)
    return user_error("there is no region '" + command.source + "'", {}, "`rtx explain MODEL` lists the regions");
  if (!partition.refusals.empty() && command.source.empty()) {
    console.line();
    for (const auto& refusal : partition.refusals) {
      const std::string line = recognised.describe(refusal.node) + " stays out of the region of " + recognised.describe(refusal.anchor) + ": " + refusal.reason;
      out["refusals"].push_back(line);
      if (common.console.verbose) console.line(line);
    }
    if (!common.console.verbose) console.line(std::to_string(partition.refusals.size()) + " nodes were considered for a region and refused (-v says why)");
  }
  if (common.console.json) RTX_CHECK(console.json(out.dump(2, ' ', false, json::error_handler_t::replace)));
  return 0;
}

}  // namespace rtx::tools

// rtx inspect, rtx check: what is in a bundle, and whether it would run here.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/all_device.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "ir/dim.h"
#include "rtx/environment.h"
#include "rtx/footprint.h"
#include "rtx/options.h"

namespace rtx::tools {

namespace {

using nlohmann::json;

std::string describe(const bundle::TensorInfo& info) { return info.name + ": " + std::string(ir::name(info.dtype)) + ir::text(info.extents); }

json verdict_json(const bundle::Verdict& verdict) {
  json fields = json::array();
  for (const auto& field : verdict.fields) fields.push_back({{"field", field.field}, {"found", field.found}, {"wanted", field.wanted}, {"matches", field.matches}});
  return {{"verdict", bundle::name(verdict.kind)}, {"sentence", verdict.sentence}, {"fields", fields}};
}

std::vector<backend::Footprint> footprints_of(const bundle::Plan& plan, size_t kernel) {
  std::vector<Launched> launches;
  for (const auto* steps : {&plan.prepare, &plan.steps})
    for (const auto& step : *steps)
      if (static_cast<size_t>(step.kernel) == kernel) launches.push_back({step.entry, step.group.count(), step.scratch_bytes});
  return footprints(plan.identity.target, plan.identity.arch, plan.kernels[kernel].binary, launches);
}
json footprints_json(const std::vector<backend::Footprint>& all) {
  json out = json::array();
  for (const auto& one : all)
    out.push_back({{"entry", one.resources.entry}, {"registers", one.resources.registers}, {"stack_bytes", one.resources.stack}, {"static_shared_bytes", one.resources.static_shared},
                   {"dynamic_shared_bytes", one.scratch_bytes}, {"threads", one.threads}, {"groups_per_core", one.groups}, {"occupancy_pct", 100 * one.share}, {"limited_by", one.limit}});
  return out;
}

Result<int> check(const bundle::Opened& opened, const Common& common, Console& console) {
  // What this machine is, without creating a device context; for a target that is not here, its CPU.
  const auto& sides = backend::all_devices();
  const auto same = [&](const backend::DeviceSide& side) { return side.target == opened.plan.identity.target; };
  const auto side = std::find_if(sides.begin(), sides.end(), same);
  auto identified = (side == sides.end() ? sides.front() : *side).identify(common.threads, common.device);
  if (!identified.ok() && common.device != 0) return std::move(identified).error();
  if (!identified.ok()) identified = sides.front().identify(common.threads, 0);
  RTX_TRY(const backend::Caps here, std::move(identified));
  const auto verdict = bundle::judge(opened.plan.identity, here);
  const bool runs = verdict.kind == bundle::VerdictKind::exact || verdict.kind == bundle::VerdictKind::compatible;
  std::vector<std::vector<std::string>> rows;
  for (const auto& field : verdict.fields) rows.push_back({field.field, field.found, field.wanted, field.matches ? "same" : "differs"});
  console.table({"field", "in the bundle", "here", ""}, rows);
  console.line(verdict.sentence);
  if (common.console.json) RTX_CHECK(console.json(verdict_json(verdict).dump(2, ' ', false, json::error_handler_t::replace)));
  return runs ? 0 : 3;
}

}  // namespace

Result<int> inspect_command(const InspectCommand& command, const Common& common, Console& console) {
  bundle::ReadOptions options;
  const std::string keys = key_directory();
  options.trusted = [keys](const std::array<unsigned char, 32>& key) { return !keys.empty() && bundle::is_trusted(keys, key); };
  options.allow_unsigned = command.allow_unsigned;
  options.verify_constants = false;
  options.sources = command.source;
  options.side_file = command.check_only;  // one that is missing is found now, not when the bundle is to run
  RTX_TRY(const auto opened, bundle::open_manifest(command.file, options));
  if (command.check_only) return check(opened, common, console);
  const auto& plan = opened.plan;

  if (!command.kernel.empty()) {
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      const auto& kernel = plan.kernels[k];
      if (kernel.name != command.kernel) continue;
      const auto taken = footprints_of(plan, k);
      console.line("kernel " + kernel.name + " (" + kernel.family + ")");
      console.line("parameters: " + kernel.parameters);
      console.line("numerics: " + kernel.numerics_class);
      for (const auto& one : taken) console.line("takes: " + text(one));
      console.line("region:\n" + kernel.region);
      console.line("key:\n" + kernel.key);
      if (command.source) console.line(kernel.source.empty() ? "the bundle holds no sources" : kernel.source);
      if (common.console.json)
        RTX_CHECK(console.json(json{{"name", kernel.name}, {"family", kernel.family}, {"parameters", kernel.parameters}, {"key", kernel.key},
                                    {"region", kernel.region}, {"entries", footprints_json(taken)}, {"source", command.source ? json(kernel.source) : json(nullptr)}}.dump(2, ' ', false, json::error_handler_t::replace)));
      return 0;
    }
    return user_error("the bundle has no kernel '" + command.kernel + "'", {}, "`rtx inspect " + command.file + "` lists them");
  }

  int64_t constant_bytes = 0;
  for (const auto& constant : plan.constants) constant_bytes += constant.byte_size;
  if (common.console.json) {
    json out;
    out["identity"] = {{"target", plan.identity.target}, {"device", plan.identity.device}, {"arch", plan.identity.arch}, {"driver", plan.identity.driver},
                       {"runtime_abi", plan.identity.runtime_abi}, {"toolchain", plan.identity.toolchain}, {"synth_sha", plan.identity.synth_sha}};
    out["signer"] = opened.signer.empty() ? json(nullptr) : json(opened.signer);
    out["trusted"] = opened.signature == bundle::SignatureState::trusted;
    out["file_bytes"] = opened.file_bytes;
    out["constant_bytes"] = constant_bytes;
    out["arena_bytes"] = plan.arena_bytes;
    out["steps"] = plan.steps.size();
    out["kernels"] = json::array();
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      const auto& kernel = plan.kernels[k];
      out["kernels"].push_back({{"name", kernel.name}, {"family", kernel.family}, {"parameters", kernel.parameters}, {"measured_ms", kernel.measured_ms}, {"bytes", kernel.binary.size()},
                                {"entries", footprints_json(footprints_of(plan, k))}});
    }
    out["sections"] = json::array();
    for (const auto& [name, facts] : opened.sections) out["sections"].push_back({{"name", name}, {"facts", facts}});
    out["sbom"] = json::parse(plan.sbom, nullptr, false);
    out["summary"] = json::parse(plan.summary, nullptr, false);
    for (const char* field : {"sbom", "summary"})
      if (out[field].is_discarded()) out[field] = nullptr;
    RTX_CHECK(console.json(out.dump(2, ' ', false, json::error_handler_t::replace)));
    return 0;
  }
  console.line("bundle of " + (plan.model_name.empty() ? std::string("a model") : plan.model_name) + ", " + human_bytes(opened.file_bytes) + (plan.deterministic ? ", deterministic" : ""));
  console.line("signed by " + (opened.signer.empty() ? "nobody" : opened.signer) + (opened.signature == bundle::SignatureState::trusted ? " (trusted)" : ""));
  console.line("for " + plan.identity.target + " " + plan.identity.arch + ", " + plan.identity.device);
  console.line("made with " + plan.identity.toolchain + "; synth_sha " + plan.identity.synth_sha);
  for (const auto& info : plan.inputs) console.line("input   " + describe(info));
  for (const auto& value : plan.specialized) console.line("fixed   " + describe(value.info));
  for (const auto& state : plan.states) console.line("state   " + describe(state.info));
  for (const auto& info : plan.outputs) console.line("output  " + describe(info));
  console.line(std::to_string(plan.steps.size()) + " steps, constants " + human_bytes(constant_bytes) + ", activations " + human_bytes(plan.arena_bytes));
  console.line();
  std::vector<std::vector<std::string>> rows;
  for (const auto& kernel : plan.kernels)
    rows.push_back({kernel.name, kernel.family, kernel.measured_ms > 0 ? number(kernel.measured_ms) : "-", kernel.parameters, human_bytes(static_cast<int64_t>(kernel.binary.size()))});
  console.table({"kernel", "family", "ms", "parameters", "binary"}, rows);
  console.line();
  rows.clear();
  for (const auto& [name, facts] : opened.sections) rows.push_back({name, facts});
  console.table({"section", "offset, size, blake2b"}, rows);
  return 0;
}

}  // namespace rtx::tools

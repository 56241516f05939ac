// rtx targets, rtx --version.
#include <nlohmann/json.hpp>

#include "codegen/embedded.h"
#include "kernels/family.h"
#include "rtx/options.h"
#include "rtx/workbench.h"
#include "rtx_build_facts.h"

namespace rtx::tools {

std::string version_text() {
  std::string out(build_facts::version);
  out += " (synth_sha " + std::string(codegen::synth_sha_all()) + ", " + std::string(build_facts::compiler) + " " + std::string(build_facts::build_type) + " for " +
         std::string(build_facts::processor);
  if (!build_facts::sanitizers.empty()) out += ", sanitizers " + std::string(build_facts::sanitizers);
  return out + ")";
}

Result<int> targets_command(const TargetsCommand& command, const Common& common, Console& console) {
  const auto targets = list_targets();
  std::vector<std::string> families;
  for (const auto& family : kernels::families()) families.emplace_back(family->name());
  if (common.console.json) {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& target : targets) {
      nlohmann::json row = {{"target", target.name}, {"available", target.available}, {"why", target.why}, {"fix", target.fix}};
      if (!target.compiler.empty()) row["compiler"] = target.compiler;
      if (!target.no_compiler.empty()) row["no_compiler"] = target.no_compiler, row["compiler_fix"] = target.compiler_fix;
      if (target.available) {
        row["device"] = target.caps.device;
        row["arch"] = target.caps.arch;
        row["driver"] = target.caps.driver;
        row["cores"] = target.caps.cores;
        row["vector_bits"] = target.caps.vector_bits;
        row["features"] = target.caps.features;
        row["families"] = families;
      }
      row["devices"] = nlohmann::json::array();
      for (size_t k = 0; k < target.devices.size(); ++k) {
        const auto& caps = target.devices[k].caps;
        nlohmann::json device = {{"ordinal", k}, {"available", caps.ok()}};
        if (caps.ok()) device["device"] = caps->device, device["arch"] = caps->arch, device["driver"] = caps->driver;
        else device["why"] = caps.error().why, device["what"] = caps.error().what;
        row["devices"].push_back(std::move(device));
      }
      out.push_back(std::move(row));
    }
    RTX_CHECK(console.json(out.dump(2)));
    return 0;
  }
  for (const auto& target : targets) {
    if (!target.available) {
      console.line(target.name + ": not available: " + target.why);
      if (!target.compiler.empty() || !target.no_compiler.empty()) console.line("  compiler: " + (target.compiler.empty() ? "none (" + target.no_compiler + "); fix: " + target.compiler_fix : target.compiler));
      continue;
    }
    console.line(target.name + ": " + target.caps.arch + ", " + target.caps.device);
    if (target.caps.driver != "none") console.line("  driver: " + target.caps.driver);
    if (target.devices.size() > 1)
      for (size_t k = 0; k < target.devices.size(); ++k) {
        const auto& caps = target.devices[k].caps;
        console.line("  device " + std::to_string(k) + ": " + (caps.ok() ? caps->arch + ", " + caps->device : "not available: " + caps.error().why));
      }
    console.line("  compiler: " + (target.compiler.empty() ? "none (" + target.no_compiler + "); bundles run, nothing can be compiled; fix: " + target.compiler_fix : target.compiler));
    if (!command.features) continue;
    std::string features;
    for (const auto& feature : target.caps.features) features += (features.empty() ? "" : " ") + feature;
    console.line("  features: " + features);
    console.line("  dtypes: f64 f32 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool (f16 and bf16 are computed in f32)");
    std::string names;
    for (const auto& family : families) names += " " + family;
    console.line("  kernel families:" + names);
    console.line("  vectors of " + std::to_string(target.caps.vector_bits) + " bits, " + std::to_string(target.caps.cores) + " threads");
  }
  return 0;
}

}  // namespace rtx::tools

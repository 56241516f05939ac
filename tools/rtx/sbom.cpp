#include "rtx/sbom.h"

#include <nlohmann/json.hpp>

#include "rtx/options.h"
#include "rtx_build_facts.h"

namespace rtx::tools {

std::string make_sbom(const bundle::Plan& plan) {
  using nlohmann::json;
  json components = json::array();
  for (const auto& item : build_facts::components) {
    const std::string package(item.package), version(item.version);
    components.push_back({{"type", "library"},
                          {"name", item.name},
                          {"version", version},
                          {"purl", "pkg:deb/debian/" + package + "@" + version},
                          {"licenses", json::array({{{"license", {{"id", item.licence}}}}})}});
  }
  components.push_back({{"type", "application"}, {"name", "toolchain"}, {"version", plan.identity.toolchain}});
  json document;
  document["bomFormat"] = "CycloneDX";
  document["specVersion"] = "1.6";
  document["version"] = 1;
  document["metadata"] = {
      {"component", {{"type", "machine-learning-model"}, {"name", plan.model_name.empty() ? "model" : plan.model_name}}},
      {"tools", {{"components", json::array({{{"type", "application"}, {"name", "rtx-synth"}, {"version", version_text()}}})}}}};
  document["components"] = components;
  return document.dump(1, ' ', false, json::error_handler_t::replace);
}

}  // namespace rtx::tools

#include <algorithm>
#include <cctype>

#include "bundle/bundle.h"

namespace rtx::bundle {

namespace {

// Levels of one instruction set, each a superset of those before it: code for an earlier one runs on a later one.
constexpr std::string_view kLevels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

bool runs_on(std::string_view file, std::string_view here) {
  if (file == here) return true;
  const auto* code = std::find(std::begin(kLevels), std::end(kLevels), file);
  const auto* machine = std::find(std::begin(kLevels), std::end(kLevels), here);
  return code != std::end(kLevels) && machine != std::end(kLevels) && code < machine;
}

// "CUDA 13.0 (driver 580.65)": the word before the first number, and its major version. A driver runs what was compiled for its
// own major version or an older one of the same name.
struct DriverVersion {
  std::string name;
  int64_t major = -1;
};
DriverVersion version_of(const std::string& driver) {
  DriverVersion out;
  size_t i = 0;
  while (i < driver.size() && !std::isdigit(static_cast<unsigned char>(driver[i]))) out.name += driver[i++];
  for (int digits = 0; i < driver.size() && std::isdigit(static_cast<unsigned char>(driver[i])) && digits < 9; ++digits)
    out.major = std::max<int64_t>(out.major, 0) * 10 + (driver[i++] - '0');
  return out;
}
bool driver_supports(const std::string& file, const std::string& here) {
  const DriverVersion wanted = version_of(file), present = version_of(here);
  return wanted.name == present.name && wanted.major >= 0 && wanted.major <= present.major;
}

}  // namespace

std::string_view name(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::exact: return "exact";
    case VerdictKind::compatible: return "compatible";
    case VerdictKind::rebuild: return "rebuild";
    case VerdictKind::refuse: return "refuse";
  }
  return "refuse";
}

Verdict judge(const Identity& file, const backend::Caps& here) {
  Verdict verdict;
  verdict.kind = VerdictKind::exact;
  std::string sentence;
  const auto compare = [&](const char* field, const std::string& found, const std::string& wanted, VerdictKind otherwise, const char* meaning) {
    const bool matches = found == wanted;
    verdict.fields.push_back({field, found, wanted, matches});
    if (matches) return;
    verdict.kind = std::max(verdict.kind, otherwise);
    sentence += std::string(sentence.empty() ? "" : "; ") + meaning + ": " + field + " of the bundle " + found + ", here " + wanted;
  };
  compare("target", file.target, here.target, VerdictKind::refuse, "made for another kind of device");
  const bool arch_runs = runs_on(file.arch, here.arch);
  compare("arch", file.arch, here.arch, arch_runs ? VerdictKind::compatible : VerdictKind::rebuild,
          arch_runs ? "uses less than this machine has" : "its kernels are for another instruction set");
  compare("device", file.device, here.device, VerdictKind::compatible, "tuned elsewhere");
  const bool driver_runs = driver_supports(file.driver, here.driver);
  compare("driver", file.driver, here.driver, driver_runs ? VerdictKind::compatible : VerdictKind::rebuild,
          driver_runs ? "another driver that supports it" : "needs another driver");
  const int abi = file.runtime_abi == kRuntimeAbiOfViews ? kRuntimeAbiOfViews : kRuntimeAbi;
  compare("runtime_abi", std::to_string(file.runtime_abi), std::to_string(abi),
          file.runtime_abi > kRuntimeAbi ? VerdictKind::refuse : VerdictKind::rebuild,
          file.runtime_abi > kRuntimeAbi ? "needs a newer runtime" : "made for an older runtime");
  verdict.sentence = std::string(name(verdict.kind)) + (sentence.empty() ? ": made for this device" : ": " + sentence);
  return verdict;
}

int runtime_abi_of(const Plan& plan) {
  for (const auto* steps : {&plan.prepare, &plan.steps})
    for (const Step& step : *steps)
      if (!step.views.empty()) return kRuntimeAbiOfViews;
  return kRuntimeAbi;
}

}  // namespace rtx::bundle

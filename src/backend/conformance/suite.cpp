#include <algorithm>

#include "backend/conformance/rig.h"

namespace rtx::backend::conformance {

Bench::Bench(const Backend& backend)
    : compiler_(backend.compiler()), device_(backend.device()), dialect_(backend.dialect(device_->caps())) {}

Result<Binary> Bench::compile(const std::string& text) {
  return compiler_->compile({"conformance", text, device_->caps().arch, {}, 60});
}

Result<Function> Bench::kernel(const std::string& entry) {
  if (!module_) {
    RTX_TRY(const Binary binary, compile(text()));
    RTX_TRY(module_, device_->load(binary.bytes, "conformance"));
  }
  return device_->function(*module_, entry);
}

const std::vector<Check>& checks() {
  static const std::vector<Check> all = [] {
    std::vector<Check> out;
    for (const auto& part : {identity_checks(), memory_checks(), module_checks(), launch_checks()})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  }();
  return all;
}

std::string judge(const Check& check, const Backend& backend, const Expected& expected) {
  std::string list, reason;
  for (const auto& entry : expected.unsupported)
    if (entry.test == check.name) list = "unsupported", reason = entry.why;
  for (const auto& entry : expected.not_yet)
    if (entry.test == check.name) list = "not_yet", reason = entry.needs;
  Bench bench(backend);
  const std::string found = check.run(bench);
  if (list.empty() || !found.empty()) return list.empty() ? found : std::string();
  return "stale entry: " + std::string(check.name) + " passes, but stands under " + list + " (" + reason +
         "); remove it from the list";
}

std::string judge_lists(const Expected& expected) {
  std::vector<std::string> names;
  std::string out;
  for (const auto& entry : expected.unsupported) {
    names.push_back(entry.test);
    if (entry.why.empty()) out += entry.test + " stands under unsupported without a reason; ";
  }
  for (const auto& entry : expected.not_yet) {
    names.push_back(entry.test);
    if (entry.needs.empty()) out += entry.test + " stands under not_yet without what it needs; ";
  }
  std::sort(names.begin(), names.end());
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0 && names[i] == names[i - 1]) out += names[i] + " is listed twice; ";
    const auto known = [&](const Check& check) { return check.name == names[i]; };
    if (std::none_of(checks().begin(), checks().end(), known)) out += "no check is called " + names[i] + "; ";
  }
  return out;
}

}  // namespace rtx::backend::conformance

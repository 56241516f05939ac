#include "rtx/usage.h"

#include "base/files.h"

namespace rtx::tools {

const std::vector<std::string>& model_option_names() {
  static const std::vector<std::string> names = {"--shape", "--dim", "--state", "--value", "--dtype", "--keep-f32"};
  return names;
}

const std::vector<std::string>& search_option_names() {
  static const std::vector<std::string> names = {"--budget", "--budget-per-op", "--deterministic", "--no-tune"};
  return names;
}

Status refuse_options(const Common& common, const std::vector<std::string>& names, const std::string& why) {
  for (const auto& name : names)
    if (common.given.count(name) != 0) return user_error(name + " would do nothing", why, "leave " + name + " out");
  return success();
}

Status check_options(const ModelOptions& options) {
  if (!options.keep_f32.empty() && options.dtype != "f16" && options.dtype != "bf16")
    return user_error("--keep-f32 would do nothing", "--dtype " + options.dtype + " moves no node out of f32", "leave --keep-f32 out, or give --dtype f16 or bf16");
  return success();
}

Status check_options(const Common& common, const TuneOptions& options) {
  if (options.budget == 0) return refuse_options(common, {"--budget-per-op"}, "--budget 0 searches for nothing");
  return success();
}

Status refuse_to_overwrite(const std::string& path, std::initializer_list<std::string> others) {
  for (const auto& other : others)
    if (!other.empty() && same_place(path, other)) return user_error("cannot write " + path, "this command reads or writes it as " + other, "choose another name");
  return success();
}

}  // namespace rtx::tools

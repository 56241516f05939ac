// The kernels there are, those of backend/conformance/kernels.cpp among them, and modules of them.
#include <cstring>

#include "cubin_testing.h"
#include "functions.h"

namespace fake {

namespace {

struct Kernel {
  int arguments;
  CuResult (*run)(const Context*, int64_t groups, void* const* arguments);
};

template <class T>
T* array(const Context* context, void* pointer, int64_t count) {
  return owns(context, reinterpret_cast<CuAddress>(pointer), static_cast<size_t>(count) * sizeof(T)) ? static_cast<T*>(pointer) : nullptr;
}

const std::map<std::string, Kernel>& kernels() {
  static const std::map<std::string, Kernel> table = {
      // y[g] = 3 x[g] + 1
      {"conformance_affine", {2, [](const Context* context, int64_t groups, void* const* at) -> CuResult {
         const auto* x = array<float>(context, at[0], groups);
         auto* y = array<float>(context, at[1], groups);
         if (!x || !y) return cu_illegal_address;
         for (int64_t g = 0; g < groups; ++g) y[g] = 3 * x[g] + 1;
         return cu_success;
       }}},
      // y[g] += 1
      {"conformance_count", {1, [](const Context* context, int64_t groups, void* const* at) -> CuResult {
         auto* y = array<int>(context, at[0], groups);
         if (!y) return cu_illegal_address;
         for (int64_t g = 0; g < groups; ++g) y[g] += 1;
         return cu_success;
       }}},
      {"conformance_arguments", {13, [](const Context* context, int64_t groups, void* const* at) -> CuResult {
         auto* y = array<int64_t>(context, at[12], groups * 12);
         if (!y) return cu_illegal_address;
         for (int64_t i = 0; i < groups * 12; ++i) {
           const auto* x = array<int64_t>(context, at[i % 12], 1);
           if (!x) return cu_illegal_address;
           y[i] = *x;
         }
         return cu_success;
       }}},
      {"conformance_scratch", {3, [](const Context* context, int64_t groups, void* const* at) -> CuResult {
         const auto* words = array<int64_t>(context, at[0], 1);
         auto *sums = array<int64_t>(context, at[1], groups), *misaligned = array<int64_t>(context, at[2], groups);
         if (!words || !sums || !misaligned) return cu_illegal_address;
         for (int64_t g = 0; g < groups; ++g) sums[g] = g * *words, misaligned[g] = 0;
         return cu_success;
       }}},
      {"fault", {1, [](const Context*, int64_t, void* const*) -> CuResult { return cu_illegal_address; }}},
  };
  return table;
}

// "affine" is short for "conformance_affine".
std::string full_name(const std::string& name) { return kernels().count(name) ? name : "conformance_" + name; }

}  // namespace

bool is_kernel(const std::string& name, int* arguments) {
  const auto found = kernels().find(full_name(name));
  if (found == kernels().end()) return false;
  *arguments = found->second.arguments;
  return true;
}

CuResult run_kernel(Context* context, const std::string& name, int64_t groups, void* const* arguments) {
  return kernels().at(full_name(name)).run(context, groups, arguments);
}

CuResult load_module(CuModule* module, const void* image) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuModuleLoadData"); code != cu_success) return code;
  if (const CuResult code = unsafe_in_captures(); code != cu_success) return code;
  auto made = std::make_unique<Module>();
  made->context = current;
  const char* text = static_cast<const char*>(image) + kHeaderBytes;
  if (std::strncmp(text, kMark, sizeof kMark - 1) != 0) {
    made->native = true;
  } else {
    std::string rest = text + sizeof kMark - 1;
    if (std::atoi(rest.c_str()) != state().settings.major * 10 + state().settings.minor) return cu_no_binary_for_gpu;
    for (size_t comma = rest.find(','); comma != std::string::npos; comma = rest.find(',')) {
      rest.erase(0, comma + 1);
      made->entries.insert(rest.substr(0, rest.find_first_of(",;")));
    }
  }
  ++state().counts["modules"];
  state().modules.insert(made.get());
  *module = reinterpret_cast<CuModule>(made.release());
  return cu_success;
}

CuResult unload_module(CuModule module) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuModuleUnload"); code != cu_success) return code;
  if (const CuResult code = unsafe_in_captures(); code != cu_success) return code;
  --state().counts["modules"];
  state().modules.erase(reinterpret_cast<Module*>(module));
  delete reinterpret_cast<Module*>(module);
  return cu_success;
}

CuResult get_function(CuFunction* function, CuModule handle, const char* name) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuModuleGetFunction"); code != cu_success) return code;
  auto& module = *reinterpret_cast<Module*>(handle);
  int arguments = 0;
  if (!module.native && (!module.entries.count(name) || !is_kernel(name, &arguments))) return cu_not_found;
  auto& made = module.functions.emplace_back();
  made.name = name, made.native = module.native;
  *function = reinterpret_cast<CuFunction>(&made);
  return cu_success;
}

CuResult set_function_attribute(CuFunction function, int attribute, int value) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuFuncSetAttribute"); code != cu_success) return code;
  if (attribute != cu_function_dynamic_shared_bytes || value < 0 || value > (227 << 10)) return cu_invalid_value;
  reinterpret_cast<Function*>(function)->shared = value;
  return cu_success;
}

CuResult function_attribute(int* value, int, CuFunction) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuFuncGetAttribute"); code != cu_success) return code;
  *value = 32;
  return cu_success;
}

// Arguments are copied when a kernel is launched, and read when it runs.
CuResult launch(const CuLaunchConfig* config, CuFunction handle, void** parameters, void**) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuLaunchKernelEx"); code != cu_success) return code;
  if (state().settings.launch != cu_success) return state().settings.launch;
  const auto& function = *reinterpret_cast<Function*>(handle);
  const auto threads = static_cast<int64_t>(config->group_x) * config->group_y * config->group_z;
  if (config->grid_x == 0 || config->grid_y == 0 || config->grid_z == 0 || threads == 0 || threads > 1024) return cu_invalid_value;
  if (static_cast<int>(config->shared_bytes) > function.shared) return cu_invalid_value;
  ++state().counts["launches"];
  if (function.native) return issue(config->stream, [] { return cu_success; });
  int count = 0;
  if (!is_kernel(function.name, &count)) return cu_invalid_handle;
  auto** const given = static_cast<void**>(parameters[0]);
  return issue(config->stream, [context = current, name = function.name, groups = int64_t{config->grid_x}, arguments = std::vector<void*>(given, given + count)] {
    return run_kernel(context, name, groups, arguments.data());
  });
}

}  // namespace fake

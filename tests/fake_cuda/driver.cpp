// What is asked first: the driver's start, its devices and contexts, and where its functions are.
#include <cstring>

#include "functions.h"

namespace fake {

namespace {

CuResult not_implemented() { return cu_not_supported; }

bool has(CuDevice device) { return device >= 0 && device < state().settings.devices; }

}  // namespace

CuResult error_name(CuResult code, const char** text) {
  static const std::map<CuResult, const char*> names = {
      {cu_invalid_value, "CUDA_ERROR_INVALID_VALUE"}, {cu_out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY"}, {cu_no_device, "CUDA_ERROR_NO_DEVICE"},
      {cu_invalid_context, "CUDA_ERROR_INVALID_CONTEXT"}, {cu_context_destroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED"}, {cu_no_binary_for_gpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {cu_invalid_handle, "CUDA_ERROR_INVALID_HANDLE"},
      {cu_not_found, "CUDA_ERROR_NOT_FOUND"}, {cu_illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {cu_out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
      {cu_capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {cu_capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {cu_capture_implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"}};
  const auto found = names.find(code);
  if (found == names.end()) return cu_invalid_value;
  *text = found->second;
  return cu_success;
}
CuResult error_string(CuResult code, const char** text) {
  *text = "words of the fake driver";
  return code == cu_success ? cu_invalid_value : cu_success;
}

CuResult device_count(int* count) { return *count = state().settings.devices, cu_success; }
CuResult device_get(CuDevice* device, int ordinal) { return has(ordinal) ? (*device = ordinal, cu_success) : cu_invalid_value; }
CuResult device_name(char* name, int bytes, CuDevice) { return std::snprintf(name, static_cast<size_t>(bytes), "%s", state().settings.name.c_str()), cu_success; }
CuResult device_memory(size_t* bytes, CuDevice) { return *bytes = static_cast<size_t>(state().settings.memory_mib) << 20, cu_success; }
CuResult device_bus(char* text, int bytes, CuDevice device) { return std::snprintf(text, static_cast<size_t>(bytes), "0000:%02X:00.0", device + 1), cu_success; }
CuResult device_attribute(int* value, int attribute, CuDevice device) {
  const Settings& s = state().settings;
  const std::map<int, int> values = {{cu_max_threads_per_group, 1024}, {cu_clock_khz, 1980000}, {cu_multiprocessors, s.sms}, {cu_memory_clock_khz, 0}, {cu_memory_bus_bits, 6144},
                                     {cu_l2_bytes, 1 << 20}, {cu_capability_major, s.major}, {cu_capability_minor, s.minor}, {cu_shared_bytes_per_group, 227 << 10}, {cu_memory_pools, 0}};
  const auto found = values.find(attribute);
  return has(device) && found != values.end() ? (*value = found->second, cu_success) : cu_invalid_value;
}

CuResult primary_state(CuDevice device, unsigned* flags, int* active) {
  const std::lock_guard lock(state().mutex);
  (void)enter("cuDevicePrimaryCtxGetState", false);
  *flags = 0, *active = state().primaries.count(device) ? 1 : 0;
  return cu_success;
}
CuResult retain_context(CuContext* context, CuDevice device) {
  const std::lock_guard lock(state().mutex);
  (void)enter("cuDevicePrimaryCtxRetain", false);
  auto& primary = state().primaries[device];
  if (!primary) {
    primary = std::make_unique<Context>();
    primary->device = device, primary->primary = true;
    state().contexts.insert(primary.get());
  }
  ++primary->users;
  *context = reinterpret_cast<CuContext>(primary.get());
  return cu_success;
}
CuResult release_context(CuDevice device) {
  const std::lock_guard lock(state().mutex);
  (void)enter("cuDevicePrimaryCtxRelease", false);
  const auto found = state().primaries.find(device);
  if (found == state().primaries.end()) return cu_invalid_context;
  if (--found->second->users > 0) return cu_success;
  state().contexts.erase(found->second.get());
  state().null_streams.erase(found->second.get());
  state().destroyed.push_back(std::move(found->second));
  state().primaries.erase(found);
  return cu_success;
}
CuResult current_context(CuContext* context) {
  ++state().counts["cuCtxGetCurrent"];
  return *context = reinterpret_cast<CuContext>(current), cu_success;
}
CuResult set_context(CuContext context) {
  const std::lock_guard lock(state().mutex);
  (void)enter("cuCtxSetCurrent", false);
  auto* const chosen = reinterpret_cast<Context*>(context);
  if (chosen && !state().contexts.count(chosen)) return cu_invalid_context;
  current = chosen;
  return cu_success;
}
CuResult context_device(CuDevice* device) {
  const std::lock_guard lock(state().mutex);
  const CuResult code = enter("cuCtxGetDevice");
  if (code != cu_success && code != cu_context_destroyed) return code;  // a destroyed one still says whose it was, as NVIDIA's driver does
  return *device = current->device, cu_success;
}

}  // namespace fake

using namespace fake;

extern "C" CuResult cuInit(unsigned) {
  const std::lock_guard lock(state().mutex);
  state().settings = read_settings();
  state().counts.clear();
  (void)enter("cuInit", false);
  return state().settings.init;
}
extern "C" CuResult cuDriverGetVersion(int* version) { return *version = read_settings().version, cu_success; }

// NVRTC asks for it where it finds a driver, and goes on without.
extern "C" CuResult cuGetExportTable(const void** table, const void*) { return *table = nullptr, cu_not_found; }

// For tests that are somebody else with a context of his own.
extern "C" CuResult cuCtxCreate_v2(CuContext* context, unsigned, CuDevice device) {
  const std::lock_guard lock(state().mutex);
  auto* const made = new Context;
  made->device = device;
  state().contexts.insert(made);
  current = made;
  *context = reinterpret_cast<CuContext>(made);
  return cu_success;
}
extern "C" CuResult cuCtxDestroy_v2(CuContext context) {
  const std::lock_guard lock(state().mutex);
  auto* const made = reinterpret_cast<Context*>(context);
  if (current == made) current = nullptr;
  state().null_streams.erase(made);
  state().contexts.erase(made);
  delete made;
  return cu_success;
}

extern "C" CuResult cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t, int* status) {
  struct Row {
    const char* symbol;
    int since;
    void* function;
  };
#define RTX_FAKE_ROW(field, symbol, since, parameters) {#symbol, since, &fake::field ? reinterpret_cast<void*>(&fake::field) : reinterpret_cast<void*>(&not_implemented)},
  static const Row rows[] = {RTX_CUDA_FUNCTIONS(RTX_FAKE_ROW)};
#undef RTX_FAKE_ROW
  *function = nullptr;
  *status = 1;  // not found
  for (const Row& row : rows)
    if (std::strcmp(row.symbol, symbol) == 0 && state().settings.missing != symbol && row.since <= version) *function = row.function, *status = 0;
  return *function ? cu_success : cu_not_found;
}

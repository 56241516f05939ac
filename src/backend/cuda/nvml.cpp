#include "backend/cuda/nvml.h"

#include <dlfcn.h>

#include <algorithm>

namespace rtx::backend::cuda {

namespace {

using Handle = void*;
enum : int { nvml_success = 0 };
enum : int { clock_of_cores = 1, clock_of_memory = 2 };
enum : int { sensor_of_gpu = 0 };

}  // namespace

// X(field, symbol, parameters); all return a code. Those behind the first three may be missing: what they tell stays 0.
#define RTX_NVML_FUNCTIONS(X)                                                                        \
  X(init, nvmlInit_v2, ())                                                                           \
  X(driver_version, nvmlSystemGetDriverVersion, (char* text, unsigned bytes))                        \
  X(device_by_bus, nvmlDeviceGetHandleByPciBusId_v2, (const char* bus, Handle* device))              \
  X(clock, nvmlDeviceGetClockInfo, (Handle device, int of, unsigned* mhz))                           \
  X(power, nvmlDeviceGetPowerUsage, (Handle device, unsigned* milliwatts))                           \
  X(power_limit, nvmlDeviceGetEnforcedPowerLimit, (Handle device, unsigned* milliwatts))             \
  X(temperature, nvmlDeviceGetTemperature, (Handle device, int sensor, unsigned* celsius))           \
  X(event_reasons, nvmlDeviceGetCurrentClocksEventReasons, (Handle device, unsigned long long*))     \
  X(throttle_reasons, nvmlDeviceGetCurrentClocksThrottleReasons, (Handle device, unsigned long long*)) \
  X(mig_mode, nvmlDeviceGetMigMode, (Handle device, unsigned* now, unsigned* pending))

struct Nvml::Table {
#define RTX_NVML_FIELD(field, symbol, parameters) int(*field) parameters = nullptr;
  RTX_NVML_FUNCTIONS(RTX_NVML_FIELD)
#undef RTX_NVML_FIELD
  const char* (*error_string)(int code) = nullptr;

  Error error(const std::string& why, int code) const {
    const char* words = error_string ? error_string(code) : nullptr;
    return error_of(ErrorKind::device, "clocks, power and temperature are not known", why + ": " + (words ? words : "NVML error " + std::to_string(code)));
  }
};

// It is started once and stays open: its threads and exit handlers live in it.
Result<std::shared_ptr<const Nvml>> Nvml::open(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* text = dlerror();
    return error_of(ErrorKind::device, "clocks, power and temperature are not known", std::string("there is no NVML: ") + (text ? text : library.c_str()),
                    "install the driver's libnvidia-ml.so.1");
  }
  auto table = std::make_shared<Table>();
#define RTX_NVML_FIND(field, symbol, parameters) table->field = reinterpret_cast<int(*) parameters>(dlsym(handle, #symbol));
  RTX_NVML_FUNCTIONS(RTX_NVML_FIND)
#undef RTX_NVML_FIND
  table->error_string = reinterpret_cast<const char* (*)(int)>(dlsym(handle, "nvmlErrorString"));
  if (!table->init || !table->driver_version || !table->device_by_bus)
    return error_of(ErrorKind::device, "clocks, power and temperature are not known", library + " is no NVML: it has no nvmlInit_v2", "install the driver's libnvidia-ml.so.1");
  if (const int code = table->init(); code != nvml_success) return table->error("NVML does not start", code);
  return std::shared_ptr<const Nvml>(new Nvml(std::move(table)));
}

std::string Nvml::driver_version() const {
  char text[96] = {};
  return table_->driver_version(text, sizeof text) == nvml_success ? std::string(text) : std::string();
}

Result<void*> Nvml::find(const std::string& bus) const {
  Handle device = nullptr;
  if (const int code = table_->device_by_bus(bus.c_str(), &device); code != nvml_success) return table_->error("NVML has no device at " + bus, code);
  return device;
}

Result<Conditions> Nvml::conditions(const std::string& bus) const {
  RTX_TRY(Handle device, find(bus));
  Conditions out;
  unsigned value = 0;
  if (table_->clock && table_->clock(device, clock_of_cores, &value) == nvml_success) out.core_mhz = static_cast<int>(value);
  if (table_->clock && table_->clock(device, clock_of_memory, &value) == nvml_success) out.memory_mhz = static_cast<int>(value);
  if (table_->power && table_->power(device, &value) == nvml_success) out.watts = value / 1e3;
  if (table_->power_limit && table_->power_limit(device, &value) == nvml_success) out.watts_allowed = value / 1e3;
  if (table_->temperature && table_->temperature(device, sensor_of_gpu, &value) == nvml_success) out.celsius = value;
  unsigned long long mask = 0;
  const auto reasons = table_->event_reasons ? table_->event_reasons : table_->throttle_reasons;
  if (reasons && reasons(device, &mask) == nvml_success) out.slowed_by = reasons_of_slowing(mask);
  unsigned now = 0, pending = 0;
  out.divided = table_->mig_mode && table_->mig_mode(device, &now, &pending) == nvml_success && now != 0;
  return out;
}

std::vector<std::string> reasons_of_slowing(unsigned long long mask) {
  struct Reason {
    unsigned long long bit;
    const char* word;
  };
  constexpr Reason kReasons[] = {{0x04, "power"}, {0x08, "hardware"}, {0x10, "another GPU's clocks"}, {0x20, "heat"}, {0x40, "heat, by hardware"}, {0x80, "the power supply"}};
  std::vector<std::string> out;
  for (const auto& reason : kReasons)
    if (mask & reason.bit) out.emplace_back(reason.word);
  return out;
}

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build ...": the first word of digits and dots.
std::string version_in_proc(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  if (line.find("NVIDIA") == std::string::npos) return {};
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, end - at);
    if (!word.empty() && word.find_first_not_of("0123456789.") == std::string::npos && word.find('.') != std::string::npos) return word;
    at = end + 1;
  }
  return {};
}

}  // namespace rtx::backend::cuda

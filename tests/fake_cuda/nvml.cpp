// libnvidia-ml.so.1 of the fake driver: one GPU's figures for all of them. It reads its settings when it starts.
#include <cstdio>
#include <cstring>

#include "state.h"

namespace {

fake::Settings settings;
enum : int { success = 0, not_found = 6, not_supported = 3 };

}  // namespace

extern "C" {

int nvmlInit_v2() {
  settings = fake::read_settings();
  return settings.nvml;
}
const char* nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : code == not_found ? "Not Found" : "words of the fake NVML"; }
int nvmlSystemGetDriverVersion(char* text, unsigned bytes) { return std::snprintf(text, bytes, "%s", settings.release.c_str()), success; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  unsigned number = 0;
  if (std::sscanf(bus, "0000:%x:00.0", &number) != 1 || number < 1 || number > static_cast<unsigned>(settings.devices)) return not_found;
  *device = &settings;
  return success;
}
int nvmlDeviceGetClockInfo(void*, int of, unsigned* mhz) { return *mhz = of == 2 ? 3201 : static_cast<unsigned>(settings.core_mhz), success; }
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return *milliwatts = static_cast<unsigned>(settings.watts) * 1000, success; }
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned*) { return not_supported; }
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) { return *celsius = static_cast<unsigned>(settings.celsius), success; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* mask) { return *mask = settings.slowed, success; }
int nvmlDeviceGetMigMode(void*, unsigned* now, unsigned* pending) { return *now = *pending = static_cast<unsigned>(settings.mig), success; }

}

#include "backend/cuda/driver_table.h"

#include <dlfcn.h>

#include "base/files.h"

namespace rtx::backend::cuda {

namespace {

constexpr const char* kFix = "install an NVIDIA driver that supports CUDA 12.0 or newer";

std::string version_text(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

Error unusable(const std::string& why, const std::string& fix = kFix) { return error_of(ErrorKind::device, "target cuda has no device", why, fix); }

using FindSymbol = CuResult (*)(const char* symbol, void** function, int version, uint64_t flags, int* status);

}  // namespace

Result<std::shared_ptr<const Driver>> Driver::open(const DriverFiles& files) {
  std::shared_ptr<Driver> out(new Driver);
  out->files_ = files;
  const std::string& library = files.library;
  out->handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!out->handle_) {
    const char* text = dlerror();
    return unusable(std::string("there is no NVIDIA driver: ") + (text ? text : library.c_str()));
  }
  auto& table = out->table_;
  table.init = reinterpret_cast<CuResult (*)(unsigned)>(dlsym(out->handle_, "cuInit"));
  table.version = reinterpret_cast<CuResult (*)(int*)>(dlsym(out->handle_, "cuDriverGetVersion"));
  if (!table.init || !table.version) return unusable(library + " is no NVIDIA driver: it has no cuInit or cuDriverGetVersion");
  const CuResult started = table.init(0);
  if (started == cu_stub_library) return unusable(library + " is the toolkit's library for linking, not a driver", "take its folder out of LD_LIBRARY_PATH");
  // Before what cuInit says: a driver that is too old may fail in its own way.
  int version = 0;
  if (table.version(&version) == cu_success && version < kLeastDriver)
    return unusable("the driver supports CUDA " + version_text(version) + ", needed is " + version_text(kLeastDriver));
  if (started == cu_no_device) return unusable("the driver sees no device (CUDA_ERROR_NO_DEVICE)", "check nvidia-smi and CUDA_VISIBLE_DEVICES");
  const auto find = reinterpret_cast<FindSymbol>(dlsym(out->handle_, "cuGetProcAddress_v2"));
  if (!find) return unusable(library + " has no cuGetProcAddress_v2, which CUDA 12.0 brought");
#define RTX_CUDA_FIND(field, symbol, since, parameters)                                               \
  {                                                                                                   \
    void* address = nullptr;                                                                          \
    int status = 0;                                                                                   \
    if (find(#symbol, &address, since, 0, &status) != cu_success || status != 0 || !address)          \
      return unusable(std::string(library) + " has no " #symbol);                                     \
    table.field = reinterpret_cast<CuResult(*) parameters>(address);                                  \
  }
  RTX_CUDA_FUNCTIONS(RTX_CUDA_FIND)
#undef RTX_CUDA_FIND
  if (started != cu_success) return out->error("target cuda has no device", started);
  out->version_ = version;
  RTX_CHECK(out->check("cannot count CUDA devices", table.device_count(&out->devices_)));
  if (out->devices_ == 0) return unusable("the driver sees no device", "check nvidia-smi and CUDA_VISIBLE_DEVICES");
  // The kernel module's file costs nothing to read, NVML's start tens of milliseconds.
  const auto told = read_plain_file(files.version_file, 4096);
  std::string release = told.ok() ? version_in_proc(*told) : std::string();
  if (release.empty() && out->management().ok()) release = (*out->management())->driver_version();
  out->name_ = "CUDA " + version_text(version) + (release.empty() ? std::string() : " (driver " + release + ")");
  return std::shared_ptr<const Driver>(std::move(out));
}

const Result<std::shared_ptr<const Nvml>>& Driver::management() const {
  std::call_once(management_once_, [this] { management_ = Nvml::open(files_.management); });
  return management_;
}

// The library stays open: a driver's threads and exit handlers live in it.
Driver::~Driver() = default;

Error Driver::error(const std::string& what, CuResult code) const {
  const char *name = nullptr, *words = nullptr;
  if (table_.error_name) (void)table_.error_name(code, &name);
  if (table_.error_string) (void)table_.error_string(code, &words);
  return error_of(ErrorKind::device, what, (name ? std::string(name) : "CUDA error " + std::to_string(code)) + (words ? std::string(": ") + words : std::string()));
}

}  // namespace rtx::backend::cuda

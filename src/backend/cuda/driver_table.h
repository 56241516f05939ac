#pragma once
// libcuda, opened at run time and never linked: one table of its functions. Opening makes no context.
#include <memory>
#include <mutex>
#include <string>

#include "backend/cuda/driver_types.h"
#include "backend/cuda/nvml.h"
#include "base/result.h"

namespace rtx::backend::cuda {

constexpr int kLeastDriver = 12000;  // CUDA 12.0, as cuDriverGetVersion spells it

// Where the driver's parts are looked for; the loader's search path (LD_LIBRARY_PATH) decides which they are.
struct DriverFiles {
  std::string library = "libcuda.so.1";
  std::string management = "libnvidia-ml.so.1";
  std::string version_file = "/proc/driver/nvidia/version";
};

class Driver {
 public:
  // Kind device, one sentence why: no driver, a build-time library in its place, too old (found and needed), no device.
  static Result<std::shared_ptr<const Driver>> open(const DriverFiles& files = {});
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const DriverTable& call() const { return table_; }
  int version() const { return version_; }  // 13000: supports CUDA 13.0
  int devices() const { return devices_; }
  // "CUDA 13.0 (driver 580.159.03)": what it supports, and which one it is where the kernel module or NVML tells. Part of every key.
  const std::string& name() const { return name_; }
  // The management library, opened by the first who asks; kind device, with the reason, where there is none.
  const Result<std::shared_ptr<const Nvml>>& management() const;
  // An error of kind device; `what` is the sentence, the reason is the driver's name and words for the code.
  Error error(const std::string& what, CuResult code) const;
  Status check(const std::string& what, CuResult code) const { return code == cu_success ? success() : Status(error(what, code)); }

 private:
  Driver() = default;
  void* handle_ = nullptr;
  DriverTable table_;
  int version_ = 0, devices_ = 0;
  std::string name_;
  DriverFiles files_;
  mutable std::once_flag management_once_;
  mutable Result<std::shared_ptr<const Nvml>> management_ = std::shared_ptr<const Nvml>();
};

}  // namespace rtx::backend::cuda

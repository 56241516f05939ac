#pragma once
// libcuda, opened at run time and never linked: one table of its functions. Opening makes no context.
#include <memory>
#include <string>

#include "backend/cuda/driver_types.h"
#include "base/result.h"

namespace rtx::backend::cuda {

constexpr int kLeastDriver = 12000;  // CUDA 12.0, as cuDriverGetVersion spells it

class Driver {
 public:
  // Kind device, one sentence why: no driver, a build-time library in its place, too old (found and needed), no device.
  static Result<std::shared_ptr<const Driver>> open(const std::string& library = "libcuda.so.1");
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const DriverTable& call() const { return table_; }
  int version() const { return version_; }  // 13000: supports CUDA 13.0
  int devices() const { return devices_; }
  // An error of kind device; `what` is the sentence, the reason is the driver's name and words for the code.
  Error error(const std::string& what, CuResult code) const;
  Status check(const std::string& what, CuResult code) const { return code == cu_success ? success() : Status(error(what, code)); }

 private:
  Driver() = default;
  void* handle_ = nullptr;
  DriverTable table_;
  int version_ = 0, devices_ = 0;
};

}  // namespace rtx::backend::cuda

#pragma once
// libnvidia-ml, opened at run time: what the management library says of a device while it works. It makes no context.
#include <memory>
#include <string>

#include "backend/device.h"
#include "base/result.h"

namespace rtx::backend::cuda {

class Nvml {
 public:
  // Kind device, one sentence why. Opening takes tens of milliseconds: only who asks for conditions does it.
  static Result<std::shared_ptr<const Nvml>> open(const std::string& library = "libnvidia-ml.so.1");
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver_version() const;  // "580.159.03"; empty where it is not told
  // Of the whole GPU, also where a process has a partition of it. `bus` as the driver spells it: "0000:19:00.0".
  Result<Conditions> conditions(const std::string& bus) const;

 private:
  struct Table;
  explicit Nvml(std::shared_ptr<const Table> table) : table_(std::move(table)) {}
  Result<void*> find(const std::string& bus) const;
  std::shared_ptr<const Table> table_;
};

// Why clocks are below what they could be, a word a bit of NVML's mask; idling and settings made on purpose are no such reason.
std::vector<std::string> reasons_of_slowing(unsigned long long mask);
// The version in the text of /proc/driver/nvidia/version; empty where there is none.
std::string version_in_proc(const std::string& text);

}  // namespace rtx::backend::cuda

#pragma once
// Workbench: the tools of one target (compiler, device, dialect, cache, workers), made once a command. Which backends there
// are stands in backend/all_compile.cpp and backend/all_device.cpp.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/compiler.h"
#include "backend/device.h"
#include "base/result.h"
#include "compiler/pipeline.h"
#include "rtx/console.h"

namespace rtx::tools {

struct Target {
  std::string name;
  bool available = false;
  std::string why;          // when it is not available
  std::string fix;
  backend::Caps caps;       // when it is: of the device that was asked for
  struct Listed {
    Result<backend::Caps> caps;  // or why it cannot be used
  };
  std::vector<Listed> devices;  // all of the target, by ordinal
  std::string compiler;     // identity, when there is one
  std::string no_compiler;  // why there is none
  std::string compiler_fix;
};
// Every target this program knows, available or not.
std::vector<Target> list_targets();
// Kind device with the reason when device `ordinal` of `name` is not available, kind user when there is no such target.
Result<Target> require_target(const std::string& name, int ordinal, const std::string& arch = {});

// What `--target NAME --emulate` is: kind user where NAME is no GPU. Its own name works as a target, too.
inline constexpr const char* kEmulatedTarget = "cuda-emulated";
Result<std::string> emulated_target(const std::string& name);

struct WorkbenchOptions {
  std::string target = "cpu";
  std::string arch;      // empty: the device's own
  int device = 0;        // ordinal
  int threads = 0, jobs = 0;
  bool workers = true;   // candidates run in worker processes
  uint64_t seed = 1;
};

class Workbench {
 public:
  static Result<std::unique_ptr<Workbench>> open(const WorkbenchOptions& options, Console& console);
  compiler::Toolbox toolbox();
  backend::Device& device() { return *device_; }
  std::shared_ptr<backend::Device> shared_device() { return device_; }
  backend::Compiler& compiler() { return *compiler_; }
  cache::Cache& cache() { return *cache_; }
  const WorkbenchOptions& options() const { return options_; }
  // The library of the unfused baseline, or why there is none: matrix products by OpenBLAS or cuBLASLt.
  using Vendor = std::function<std::optional<backend::KernelPlan>(const ir::Graph&)>;
  Result<Vendor> vendor_library();
  // The same question before anything is tuned.
  Status has_vendor_library() {
    auto found = vendor_library();
    return found.ok() ? success() : Status(std::move(found).error());
  }
  // What a bench is measured against, each by its name; a library that is not here is left out with one notice.
  std::vector<std::pair<std::string, Vendor>> peers(Console& console);

 private:
  WorkbenchOptions options_;
  std::shared_ptr<backend::Device> device_;
  std::unique_ptr<backend::Compiler> compiler_;
  codegen::Dialect dialect_;
  std::unique_ptr<cache::Cache> cache_;
  std::unique_ptr<tune::Evaluator> evaluator_;
};

// The target a bundle was made for; empty where the file cannot say (whoever loads it then says why).
std::string target_of_bundle(const std::string& path);
// The device of a worker process, and of a bundle.
Result<std::shared_ptr<backend::Device>> make_device(const std::string& target, int threads, const std::string& arch, int ordinal);
std::unique_ptr<cache::Cache> open_cache(Console& console);
int64_t cache_bound(Console& console);  // bytes: RTX_CACHE_MAX_MB, or the default with a notice when that is no number
std::string own_program();  // path of the running executable

}  // namespace rtx::tools

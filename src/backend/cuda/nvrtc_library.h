#pragma once
// NVRTC, NVIDIA's compiler as a library, opened at run time: found, checked symbol by symbol, never linked.
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/nvrtc_table.h"
#include "base/result.h"

namespace rtx::backend::cuda {

struct NvrtcSearch {
  std::string library;             // a file, or a folder that holds one (RTX_NVRTC): it and no other; empty: the places below
  std::vector<std::string> roots;  // toolkits: $CUDA_HOME, $CUDA_PATH
  std::string system = "/usr/local";  // where cuda and cuda-<version> are looked for after them
  bool loader = true;              // last: by name, wherever the system's loader finds it
};

// The library's path, without opening it; empty where only the loader can say. Kind device when there is none: where it was looked for.
Result<std::string> find_nvrtc(const NvrtcSearch& search);

class Nvrtc {
 public:
  // `path` empty: by name through the loader. Kind device when it cannot be opened, or is no NVRTC (which symbols it lacks).
  static Result<std::shared_ptr<const Nvrtc>> open(const std::string& path);
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  const NvrtcTable& call() const { return table_; }
  const std::string& path() const { return path_; }         // of the file that was opened
  int major() const { return major_; }
  int minor() const { return minor_; }
  const std::vector<int>& archs() const { return archs_; }  // 75, 80, 86, ...: without the "a" of sm_90a

 private:
  Nvrtc() = default;
  void* handle_ = nullptr;
  NvrtcTable table_;
  std::string path_;
  int major_ = 0, minor_ = 0;
  std::vector<int> archs_;
};

// What a person does about a missing NVRTC.
extern const char* const kNvrtcFix;

}  // namespace rtx::backend::cuda

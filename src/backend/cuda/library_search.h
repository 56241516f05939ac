#pragma once
// Libraries of the vendor that a bench is measured against (cuBLASLt, cuDNN, cuFFT): found where they are, opened at run time, never
// linked. A library that is not here is one clear line; nothing takes its place.
#include <string>
#include <vector>

#include "base/result.h"

namespace rtx::backend::cuda {

struct LibrarySearch {
  std::vector<std::string> folders;   // named ones (RTX_VENDOR_LIBRARIES): a folder of libraries, a toolkit, or a Python site-packages
  std::vector<std::string> roots;     // toolkits: $CUDA_HOME, $CUDA_PATH
  std::string system = "/usr/local/cuda";
  bool loader = true;                 // last: by name, wherever the system's loader finds it
};

// What is looked for: file names, the preferred first, and the words for a person.
struct LibraryNames {
  std::string product;             // "cuBLASLt"
  std::vector<std::string> files;  // "libcublasLt.so.13", ...
  std::string package;             // "nvidia-cublas"
};
const LibraryNames& cublaslt_names();
const LibraryNames& cudnn_names();
const LibraryNames& cufft_names();

// The path of the first that is a file in one of the places, else the first that the loader opens by name. Kind device: where it was
// looked for and what to install.
Result<std::string> find_library(const LibrarySearch& search, const LibraryNames& names);

// A library's handle, open for as long as the process lives: vendors keep threads and exit handlers in them.
Result<void*> open_library(const std::string& path, const std::string& product);

}  // namespace rtx::backend::cuda

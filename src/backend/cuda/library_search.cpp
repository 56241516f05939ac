#include "backend/cuda/library_search.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>

#include "base/files.h"
#include "base/text.h"

namespace rtx::backend::cuda {

namespace {

// Where a toolkit, or the folder itself, has its libraries.
constexpr const char* kBelow[] = {"", "/lib64", "/lib", "/targets/x86_64-linux/lib", "/targets/sbsa-linux/lib"};

std::string file_in(const std::string& folder, const std::vector<std::string>& files) {
  for (const auto& file : files)
    if (file_exists(folder + "/" + file)) return folder + "/" + file;
  return {};
}

std::string file_below(const std::string& root, const std::vector<std::string>& files) {
  for (const char* below : kBelow)
    if (std::string path = file_in(root + below, files); !path.empty()) return path;
  // A site-packages: nvidia/<product>/lib, one folder a wheel.
  auto wheels = list_directory(root + "/nvidia");
  std::sort(wheels.begin(), wheels.end());
  for (const auto& wheel : wheels)
    if (std::string path = file_in(root + "/nvidia/" + wheel + "/lib", files); !path.empty()) return path;
  return {};
}

}  // namespace

const LibraryNames& cublaslt_names() {
  static const LibraryNames names{"cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, "nvidia-cublas"};
  return names;
}
const LibraryNames& cudnn_names() {
  static const LibraryNames names{"cuDNN", {"libcudnn.so.9"}, "nvidia-cudnn-cu13"};
  return names;
}
const LibraryNames& cufft_names() {
  static const LibraryNames names{"cuFFT", {"libcufft.so.12", "libcufft.so.11"}, "nvidia-cufft"};
  return names;
}

Result<std::string> find_library(const LibrarySearch& search, const LibraryNames& names) {
  std::vector<std::string> places;
  for (const auto* list : {&search.folders, &search.roots})
    for (const auto& place : *list)
      if (!place.empty()) places.push_back(place);
  if (!search.system.empty()) places.push_back(search.system);
  for (const auto& place : places)
    if (std::string path = file_below(place, names.files); !path.empty()) return path;
  if (search.loader) {
    for (const auto& file : names.files) {
      void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!handle) continue;
      link_map* map = nullptr;
      return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name ? std::string(map->l_name) : file;
    }
  }
  return error_of(ErrorKind::device, "there is no " + names.product,
                  names.files.front() + " is not below " + (places.empty() ? "any named folder" : join(places, ", ")) +
                      (search.loader ? ", and the system's loader does not find it" : ""),
                  "install the CUDA toolkit (or `pip install " + names.package + "`) and name its folder, or the site-packages, with RTX_VENDOR_LIBRARIES");
}

Result<void*> open_library(const std::string& path, const std::string& product) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle) return handle;
  const char* text = dlerror();
  return error_of(ErrorKind::device, "cannot open " + product, text ? text : path);
}

}  // namespace rtx::backend::cuda

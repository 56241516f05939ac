#include "backend/cuda/nvrtc_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>

#include "base/files.h"
#include "base/text.h"

namespace rtx::backend::cuda {

const char* const kNvrtcFix =
    "install the CUDA toolkit 12 or 13 (or `pip install nvidia-cuda-nvrtc`) and, where it is in no usual place, name libnvrtc.so.13 with RTX_NVRTC";

namespace {

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
#if defined(__aarch64__)
constexpr const char* kFolders[] = {"lib64", "lib", "targets/sbsa-linux/lib", ""};
#else
constexpr const char* kFolders[] = {"lib64", "lib", "targets/x86_64-linux/lib", ""};
#endif

Error missing(const std::string& why) { return error_of(ErrorKind::device, "target cuda has no compiler", why, kNvrtcFix); }

std::string library_in(const std::string& folder) {
  for (const char* name : kNames)
    if (file_exists(folder + "/" + name)) return folder + "/" + name;
  return {};
}

std::string library_below(const std::string& root) {
  for (const char* folder : kFolders)
    if (std::string path = library_in(root + "/" + folder); !path.empty()) return path;
  return {};
}

// cuda-13.0, cuda-12.8, ...: newest first.
std::vector<std::string> versioned(const std::string& system) {
  std::vector<std::pair<std::pair<int64_t, int64_t>, std::string>> found;
  for (const auto& name : list_directory(system)) {
    if (!starts_with(name, "cuda-")) continue;
    const auto parts = split(name.substr(5), '.');
    int64_t major = 0, minor = 0;
    if (parts.empty() || !parse_int(parts[0], major)) continue;
    if (parts.size() > 1) (void)parse_int(parts[1], minor);
    found.push_back({{-major, -minor}, system + "/" + name});
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> out;
  for (auto& [version, path] : found) out.push_back(std::move(path));
  return out;
}

}  // namespace

Result<std::string> find_nvrtc(const NvrtcSearch& search) {
  if (!search.library.empty()) {
    if (directory_exists(search.library)) {
      const std::string path = library_in(search.library);
      if (path.empty()) return missing("RTX_NVRTC names the folder " + search.library + ", which holds neither " + kNames[0] + " nor " + kNames[1]);
      return path;
    }
    if (!file_exists(search.library)) return missing("RTX_NVRTC names " + search.library + ", which is not there");
    return search.library;
  }
  std::vector<std::string> roots;
  for (const auto& root : search.roots)
    if (!root.empty()) roots.push_back(root);
  if (!search.system.empty()) {
    roots.push_back(search.system + "/cuda");
    for (auto& root : versioned(search.system)) roots.push_back(std::move(root));
  }
  for (const auto& root : roots)
    if (std::string path = library_below(root); !path.empty()) return path;
  if (search.loader) return std::string();
  return missing(std::string("neither ") + kNames[0] + " nor " + kNames[1] + " is below " + (roots.empty() ? "any named folder" : join(roots, ", ")));
}

Result<std::shared_ptr<const Nvrtc>> Nvrtc::open(const std::string& path) {
  std::shared_ptr<Nvrtc> out(new Nvrtc);
  const std::vector<std::string> names = path.empty() ? std::vector<std::string>(std::begin(kNames), std::end(kNames)) : std::vector<std::string>{path};
  std::string reason;
  for (const auto& name : names) {
    out->handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (out->handle_) break;
    const char* text = dlerror();
    if (reason.empty()) reason = text ? text : name + " cannot be opened";
  }
  if (!out->handle_) return missing(path.empty() ? "it is in none of the usual folders, and the system's loader says: " + reason : reason);
  out->path_ = path;
  if (link_map* map = nullptr; dlinfo(out->handle_, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name) out->path_ = map->l_name;

  std::string lacks;
#define RTX_NVRTC_LOAD(name, result, parameters) \
  out->table_.name = reinterpret_cast<result(*) parameters>(dlsym(out->handle_, #name));
#define RTX_NVRTC_NEED(name, result, parameters) \
  RTX_NVRTC_LOAD(name, result, parameters)       \
  if (!out->table_.name) lacks += (lacks.empty() ? "" : ", ") + std::string(#name);
  RTX_NVRTC_FUNCTIONS(RTX_NVRTC_NEED)
  RTX_NVRTC_OPTIONAL(RTX_NVRTC_LOAD)
#undef RTX_NVRTC_NEED
#undef RTX_NVRTC_LOAD
  if (!lacks.empty()) return missing(out->path_ + " is no NVRTC of CUDA 11.2 or newer: it lacks " + lacks);

  int count = 0;
  const NvrtcTable& call = out->table_;
  NvrtcResult code = call.nvrtcVersion(&out->major_, &out->minor_);
  if (code == nvrtc_success) code = call.nvrtcGetNumSupportedArchs(&count);
  if (code == nvrtc_success && count > 0 && count < 1000) {
    out->archs_.resize(static_cast<size_t>(count));
    code = call.nvrtcGetSupportedArchs(out->archs_.data());
  }
  // NVRTC opens its second library by name when it first compiles and looks for it where the loader does, not beside itself. Opened here
  // by its path, it is the one that name finds; where it is not beside, the loader is asked after all.
  if (const size_t slash = out->path_.rfind('/'); code == nvrtc_success && slash != std::string::npos) {
    const std::string second = out->path_.substr(0, slash) + "/libnvrtc-builtins.so." + std::to_string(out->major_) + "." + std::to_string(out->minor_);
    if (file_exists(second)) (void)dlopen(second.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (code != nvrtc_success) return missing(out->path_ + " does not answer: " + call.nvrtcGetErrorString(code));
  return std::shared_ptr<const Nvrtc>(std::move(out));
}

// The library stays open: NVRTC keeps threads and caches of its own, and unloading it under them is not worth 100 MB of address space.
Nvrtc::~Nvrtc() = default;

}  // namespace rtx::backend::cuda

#include "rtx/workbench.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>

#include "backend/all_compile.h"
#include "backend/all_device.h"
#include "backend/cpu/compile_vendor_gemm.h"
#include "backend/cpu/identify.h"
#include "backend/cuda/compile_library.h"
#include "backend/cuda/library_search.h"
#include "base/files.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "rtx/environment.h"
#include "rtx/interrupt.h"

namespace rtx::tools {

namespace {

std::unique_ptr<backend::Compiler> make_compiler(const backend::CompileSide& side) {
  backend::CompileSettings settings;
  settings.program = environment("RTX_CXX").value_or("");
  settings.path = environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  settings.temporary = temporary_directory();
  if (const std::string directory = cache_directory(); !directory.empty() && directory_exists(directory)) settings.memory_file = directory + "/toolchains.txt";
  settings.stop = &interrupted();
  settings.nvrtc = environment("RTX_NVRTC").value_or("");
  settings.cuda_roots = {environment("CUDA_HOME").value_or(""), environment("CUDA_PATH").value_or("")};
  return side.compiler(settings);
}

template <class Side>
const Side* side_of(const std::vector<Side>& sides, const std::string& target) {
  const auto found = std::find_if(sides.begin(), sides.end(), [&](const Side& side) { return side.target == target; });
  return found == sides.end() ? nullptr : &*found;
}

// A target whose device is here is available without a compiler: bundles run. What compiling would need is said beside it.
Target describe(const std::string& name, int ordinal) {
  Target target;
  target.name = name;
  const auto* device = side_of(backend::all_devices(), name);
  const auto* compile = side_of(backend::all_compilers(), name);
  if (device) {
    auto caps = device->identify(0, ordinal);
    for (int k = 0; k < device->count(); ++k) target.devices.push_back({device->identify(0, k)});
    target.available = caps.ok();
    if (caps.ok()) target.caps = *std::move(caps);
    else target.why = caps.error().why, target.fix = caps.error().fix;
  } else {
    target.why = "this build has no " + name + (compile ? " device side" : " backend");
    target.fix = "use --target cpu";
  }
  if (!compile) return target.available = false, target;
  auto compiler = make_compiler(*compile)->toolchain(target.available ? target.caps.arch : std::string(compile->usual_arch));
  if (compiler.ok()) target.compiler = *compiler;
  else target.no_compiler = compiler.error().why, target.compiler_fix = compiler.error().fix;
  return target;
}

constexpr const char* kTargets[] = {"cpu", "cuda", "hip", "metal"};

}  // namespace

std::vector<Target> list_targets() {
  std::vector<Target> out;
  for (const char* name : kTargets) out.push_back(describe(name, 0));
  return out;
}

Result<std::string> emulated_target(const std::string& name) {
  if (name == "cuda" || name == kEmulatedTarget) return std::string(kEmulatedTarget);
  if (name == "cpu") return user_error("--emulate needs a GPU target", "target " + name + " runs here as it is", "leave --emulate out");
  return user_error("no emulator for target '" + name + "'", "the emulator plays cuda", "use --target cuda --emulate");
}

Result<Target> require_target(const std::string& name, int ordinal, const std::string& arch) {
  const bool emulated = name == kEmulatedTarget;  // made of this build and the C++ compiler: listed by nobody, always there
  for (const char* known : kTargets) {  // only the one asked for: the others' libraries need not be looked for
    if (name != known && !emulated) continue;
    Target target = describe(name, ordinal);
    if (target.available) {
      if (arch.empty() || side_of(backend::all_devices(), name)->runs_on(arch, target.caps)) return target;
      return user_error("arch " + arch + " cannot run here", (emulated ? "the emulator takes the levels of cuda, and is " : "this machine is ") + target.caps.arch, "leave --arch out");
    }
    std::string what = "target " + name + " is not available";
    if (ordinal > 0 && !target.devices.empty()) {
      const std::string device = "device " + std::to_string(ordinal) + " of target " + name;
      what = static_cast<size_t>(ordinal) < target.devices.size() ? device + " is not available" : "there is no " + device;
    }
    return error_of(ErrorKind::device, what, target.why, target.fix);
  }
  return user_error("unknown target '" + name + "'", "the targets are cpu, cuda, hip, metal", "run `rtx targets` to see what this machine has");
}

Result<std::shared_ptr<backend::Device>> make_device(const std::string& target, int threads, const std::string& arch, int ordinal) {
  RTX_TRY(const Target found, require_target(target, ordinal, arch));
  return side_of(backend::all_devices(), found.name)->device(threads, arch, ordinal);
}

int64_t cache_bound(Console& console) {
  std::string trouble;
  const auto megabytes = environment_number("RTX_CACHE_MAX_MB", 1, 1 << 30, &trouble);
  const int64_t otherwise = cache::Options{}.max_bytes;
  if (!trouble.empty()) console.notice(trouble + "; the kernel cache keeps its default of " + std::to_string(otherwise >> 20) + " MiB");
  return megabytes ? *megabytes << 20 : otherwise;
}

std::string target_of_bundle(const std::string& path) {
  bundle::ReadOptions options;
  options.allow_unsigned = true;  // only the name is taken from it
  const auto opened = bundle::open_manifest(path, options);
  return opened.ok() ? opened->plan.identity.target : std::string();
}

std::unique_ptr<cache::Cache> open_cache(Console& console) {
  cache::Options options;
  options.directory = cache_directory();
  options.max_bytes = cache_bound(console);
  options.warn = [&console](std::string_view line) { console.notice(line); };
  return cache::Cache::open(options);
}

std::string own_program() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : std::string("rtx");
}

Result<std::unique_ptr<Workbench>> Workbench::open(const WorkbenchOptions& options, Console& console) {
  auto bench = std::make_unique<Workbench>();
  bench->options_ = options;
  RTX_TRY(bench->device_, make_device(options.target, options.threads, options.arch, options.device));
  const auto& caps = bench->device_->caps();
  if (caps.has("emulated")) console.notice("emulated " + caps.arch + ": times mean nothing");
  bench->cache_ = open_cache(console);
  const auto* compile = side_of(backend::all_compilers(), options.target);
  bench->compiler_ = make_compiler(*compile);
  bench->dialect_ = compile->dialect(caps);
  const int jobs = options.jobs > 0 ? options.jobs : std::max(1, backend::cpu::usable_cores());
  if (options.workers) {
    std::vector<std::string> command = {own_program(), "worker", "--target", options.target, "--threads", std::to_string(caps.cores), "--device", std::to_string(options.device)};
    if (!options.arch.empty()) command.insert(command.end(), {"--arch", options.arch});
    bench->evaluator_ = tune::make_worker_evaluator(*bench->compiler_, caps, bench->dialect_, std::move(command), options.seed, jobs, &interrupted());
  } else {
    bench->evaluator_ = tune::make_in_process_evaluator(*bench->compiler_, *bench->device_, bench->dialect_, options.seed, jobs);
  }
  return bench;
}

compiler::Toolbox Workbench::toolbox() { return {compiler_.get(), device_.get(), dialect_, cache_.get(), evaluator_.get()}; }

namespace {

backend::cuda::LibrarySearch library_search() {
  backend::cuda::LibrarySearch search;
  search.folders = split(environment("RTX_VENDOR_LIBRARIES").value_or(""), ':');
  search.roots = {environment("CUDA_HOME").value_or(""), environment("CUDA_PATH").value_or("")};
  return search;
}

}  // namespace

Result<Workbench::Vendor> Workbench::vendor_library() {
  constexpr const char* kNone = "no vendor library for the unfused baseline";
  const auto& target = options_.target;
  if (target == "cuda") {
    auto path = backend::cuda::find_library(library_search(), backend::cuda::cublaslt_names());
    if (!path.ok()) return error_of(ErrorKind::device, kNone, path.error().why, path.error().fix);
    return Vendor([path = *path](const ir::Graph& body) { return backend::cuda::library_matmul(body, path); });
  }
  if (target != "cpu") return error_of(ErrorKind::device, kNone, "target " + target + " runs none", "use --target cpu or cuda");
  const std::string library = environment("RTX_OPENBLAS").value_or("libopenblas.so.0");
  // Global, because the emitted text calls cblas_sgemm by name.
  if (!dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL))
    return error_of(ErrorKind::device, kNone, std::string(dlerror()), "install OpenBLAS (apt-get install libopenblas0) or name it with RTX_OPENBLAS");
  const int threads = device_->caps().cores;
  return Vendor([threads](const ir::Graph& body) { return backend::cpu::vendor_gemm(body, threads); });
}

std::vector<std::pair<std::string, Workbench::Vendor>> Workbench::peers(Console& console) {
  std::vector<std::pair<std::string, Vendor>> out;
  const auto add = [&](const char* name, Result<Vendor> vendor) {
    if (vendor.ok()) out.emplace_back(name, *std::move(vendor));
    else console.notice(vendor.error().what + ": " + vendor.error().why + "; its rows are left out");
  };
  if (options_.target == kEmulatedTarget) return out;  // times mean nothing there, whoever computes
  if (options_.target != "cuda") {
    add("openblas", vendor_library());
    return out;
  }
  namespace cuda = backend::cuda;
  const auto found = [&](const cuda::LibraryNames& names, auto plan) -> Result<Vendor> {
    RTX_TRY(const std::string path, cuda::find_library(library_search(), names));
    return Vendor([path, plan](const ir::Graph& body) { return plan(body, path); });
  };
  add("cublaslt", found(cuda::cublaslt_names(), [](const ir::Graph& body, const std::string& path) { return cuda::library_matmul(body, path); }));
  add("cudnn", found(cuda::cudnn_names(), [](const ir::Graph& body, const std::string& path) { return cuda::library_attention(body, path); }));
  return out;
}

}  // namespace rtx::tools

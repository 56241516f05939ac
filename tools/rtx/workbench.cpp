#include "rtx/workbench.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>

#include "backend/cpu/compile.h"
#include "backend/cpu/device.h"
#include "backend/cpu/dialect.h"
#include "backend/cpu/identify.h"
#include "backend/cpu/compile_vendor_gemm.h"
#include "base/files.h"
#include "rtx/environment.h"

namespace rtx::tools {

namespace {

std::unique_ptr<backend::Compiler> make_cpu_compiler() {
  backend::cpu::CompilerOptions options;
  options.program = environment("RTX_CXX").value_or("");
  options.path = environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  options.temporary = temporary_directory();
  if (const std::string directory = cache_directory(); !directory.empty() && directory_exists(directory)) options.memory_file = directory + "/toolchains.txt";
  return backend::cpu::make_compiler(std::move(options));
}

Target describe_cpu() {
  Target target;
  target.name = "cpu";
  target.caps = backend::cpu::identify();
  auto compiler = make_cpu_compiler()->toolchain(target.caps.arch);
  target.available = true;  // bundles run without a compiler
  if (compiler.ok()) target.compiler = *compiler;
  else target.why = compiler.error().why, target.fix = compiler.error().fix;
  return target;
}

}  // namespace

std::vector<Target> list_targets() {
  std::vector<Target> out = {describe_cpu()};
  for (const char* name : {"cuda", "hip", "metal"}) {
    Target target;
    target.name = name;
    target.why = "this build has no " + std::string(name) + " backend";
    target.fix = "use --target cpu";
    out.push_back(std::move(target));
  }
  return out;
}

Result<Target> require_target(const std::string& name) {
  for (auto& target : list_targets()) {
    if (target.name != name) continue;
    if (target.available) return target;
    return error_of(ErrorKind::device, "target " + name + " is not available", target.why, target.fix);
  }
  return user_error("unknown target '" + name + "'", "the targets are cpu, cuda, hip, metal", "run `rtx targets` to see what this machine has");
}

Result<std::shared_ptr<backend::Device>> make_device(const std::string& target, int threads, const std::string& arch) {
  RTX_TRY(const Target found, require_target(target));
  if (!arch.empty() && !backend::cpu::runs_on(arch, found.caps))
    return user_error("arch " + arch + " cannot run here", "this machine is " + found.caps.arch, "leave --arch out");
  return backend::cpu::make_device(threads, arch);
}

std::unique_ptr<cache::Cache> open_cache(Console& console) {
  cache::Options options;
  options.directory = cache_directory();
  if (auto megabytes = environment("RTX_CACHE_MAX_MB")) options.max_bytes = std::max<int64_t>(1, std::atoll(megabytes->c_str())) << 20;
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
  RTX_TRY(bench->device_, make_device(options.target, options.threads, options.arch));
  const auto& caps = bench->device_->caps();
  bench->cache_ = open_cache(console);
  bench->compiler_ = make_cpu_compiler();
  bench->dialect_ = backend::cpu::make_dialect(caps);
  const int jobs = options.jobs > 0 ? options.jobs : std::max(1, backend::cpu::usable_cores());
  if (options.workers) {
    std::vector<std::string> command = {own_program(), "worker", "--target", options.target, "--threads", std::to_string(caps.cores)};
    if (!options.arch.empty()) command.insert(command.end(), {"--arch", options.arch});
    bench->evaluator_ = tune::make_worker_evaluator(*bench->compiler_, caps, bench->dialect_, std::move(command), options.seed, jobs);
  } else {
    bench->evaluator_ = tune::make_in_process_evaluator(*bench->compiler_, *bench->device_, bench->dialect_, options.seed, jobs);
  }
  return bench;
}

compiler::Toolbox Workbench::toolbox() { return {compiler_.get(), device_.get(), dialect_, cache_.get(), evaluator_.get()}; }

Result<std::function<std::optional<backend::KernelPlan>(const ir::Graph&)>> Workbench::vendor_library() {
  const std::string library = environment("RTX_OPENBLAS").value_or("libopenblas.so.0");
  // Global, because the emitted text calls cblas_sgemm by name.
  if (!dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL))
    return error_of(ErrorKind::device, "no vendor library for the unfused baseline", std::string(dlerror()), "install OpenBLAS (apt-get install libopenblas0) or name it with RTX_OPENBLAS");
  const int threads = device_->caps().cores;
  return std::function<std::optional<backend::KernelPlan>(const ir::Graph&)>(
      [threads](const ir::Graph& body) { return backend::cpu::vendor_gemm(body, threads); });
}

}  // namespace rtx::tools

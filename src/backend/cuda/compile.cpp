#include "backend/cuda/compile.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <vector>

#include "backend/cuda/caps.h"
#include "backend/cuda/compile_log.h"
#include "backend/cuda/cubin.h"
#include "base/file_memory.h"
#include "base/files.h"
#include "base/text.h"

namespace rtx::backend::cuda {

namespace {

// --fmad=false: a text writes its fma itself, so results are those of the text here as on a CPU. No --Ofast-compile: it makes wgmma
// instructions wait for each other. No include folder: texts carry what they need. 177 and 550 are names that are never used.
std::vector<std::string> flags_for(const std::string& arch) {
  return {"--gpu-architecture=" + arch, "--std=c++17",       "--fmad=false",           "--prec-div=true",
          "--prec-sqrt=true",           "--ftz=false",       "--ptxas-options=-v",     "--diag-suppress=177,550"};
}

// Asked by the compiler between its steps; once yes, always yes.
struct Flow {
  const std::atomic<bool>* stop = nullptr;
  std::chrono::steady_clock::time_point deadline;
  std::atomic<bool> ended{false};
  static int ask(void* self, void*) {
    auto& flow = *static_cast<Flow*>(self);
    if (flow.ended) return 1;
    if ((flow.stop && flow.stop->load()) || std::chrono::steady_clock::now() > flow.deadline) flow.ended = true;
    return flow.ended ? 1 : 0;
  }
};

class Program {
 public:
  explicit Program(const NvrtcTable& call) : call_(call) {}
  ~Program() {
    if (program_) call_.nvrtcDestroyProgram(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  NvrtcProgram* address() { return &program_; }
  NvrtcProgram get() const { return program_; }
  std::string log() const {
    size_t size = 0;
    if (call_.nvrtcGetProgramLogSize(program_, &size) != nvrtc_success || size <= 1) return {};
    std::string out(size, '\0');
    if (call_.nvrtcGetProgramLog(program_, out.data()) != nvrtc_success) return {};
    out.resize(out.find('\0'));
    return out;
  }

 private:
  const NvrtcTable& call_;
  NvrtcProgram program_ = nullptr;
};

class CudaCompiler final : public Compiler {
 public:
  explicit CudaCompiler(CompilerOptions options) : options_(std::move(options)), memory_(options_.memory_file) {}

  std::string target() const override { return "cuda"; }

  // The library is opened only where its file is not known from before, or only the loader knows where it is.
  Result<std::string> toolchain(const std::string& arch) override {
    std::lock_guard lock(mutex_);
    if (identity_.empty()) {
      RTX_CHECK(locate());
      const std::string stamp = path_.empty() ? std::string() : file_stamp(path_);
      std::string known = stamp.empty() ? std::string() : memory_.find(stamp);
      if (known.empty()) {
        RTX_CHECK(open());
        known = describe();
        if (!stamp.empty()) memory_.remember(stamp, known);
      }
      identity_ = known;
    }
    const size_t list = identity_.find("; arches ");
    RTX_CHECK(knows(arch, split(list == std::string::npos ? "" : identity_.substr(list + 9), ' ')));
    return identity_.substr(0, list) + "; " + join(flags_for(arch), " ");
  }

  Result<Binary> compile(const CompileRequest& request) override {
    std::shared_ptr<const Nvrtc> nvrtc;
    {
      std::lock_guard lock(mutex_);
      RTX_CHECK(open());
      nvrtc = nvrtc_;
    }
    std::vector<std::string> known;
    for (const int number : nvrtc->archs()) known.push_back(std::to_string(number));
    RTX_CHECK(knows(request.arch, known));

    const NvrtcTable& call = nvrtc->call();
    Program program(call);
    // One name for all texts: it must not make two binaries of one text.
    if (const NvrtcResult code = call.nvrtcCreateProgram(program.address(), request.text.c_str(), "kernel.cu", 0, nullptr, nullptr); code != nvrtc_success)
      return failed(*nvrtc, request, code, {});
    Flow flow{options_.stop, std::chrono::steady_clock::now() + std::chrono::microseconds(static_cast<int64_t>(std::clamp(request.timeout_seconds, 0.0, 1e6) * 1e6))};
    if (call.nvrtcSetFlowCallback) (void)call.nvrtcSetFlowCallback(program.get(), &Flow::ask, &flow);

    const std::vector<std::string> flags = flags_for(request.arch);
    std::vector<const char*> options;
    for (const auto& flag : flags) options.push_back(flag.c_str());
    ++started_;
    const NvrtcResult code = call.nvrtcCompileProgram(program.get(), static_cast<int>(options.size()), options.data());
    const std::string log = program.log();
    save(request, ".cu", request.text);
    save(request, ".log", join(flags, " ") + "\n" + log);
    if (options_.stop && options_.stop->load()) return error_of(ErrorKind::interrupted, "interrupted while compiling " + request.name);
    if (code == nvrtc_cancelled || flow.ended)
      return error_of(ErrorKind::internal, "compiling " + request.name + " took longer than " + shortest(request.timeout_seconds) + " s");
    if (code != nvrtc_success) return failed(*nvrtc, request, code, log);

    Binary binary;
    size_t size = 0;
    NvrtcResult got = call.nvrtcGetCUBINSize(program.get(), &size);
    if (got == nvrtc_success) {
      binary.bytes.resize(size);
      got = call.nvrtcGetCUBIN(program.get(), reinterpret_cast<char*>(binary.bytes.data()));
    }
    if (got != nvrtc_success || size == 0) return failed(*nvrtc, request, got, "it made no binary");
    save(request, ".cubin", std::string_view(reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()));

    LogVerdict verdict = judge_log(log);
    // The log knows spills; how large a group may be stands in the binary only.
    RTX_TRY(const Cubin cubin, read_cubin(binary.bytes));
    for (auto& entry : verdict.entries)
      for (const auto& found : cubin.entries)
        if (found.entry == entry.entry) entry.max_threads = found.max_threads, entry.stack = std::max(entry.stack, found.stack);
    if (!verdict.rejection.empty()) return rejected_binary(request.name, verdict.rejection);
    binary.log = log_to_keep(log, verdict.entries);
    binary.resources = std::move(verdict.entries);
    return binary;
  }

  int64_t compiles_started() const override { return started_; }

 private:
  Status locate() {
    if (located_) return success();
    RTX_TRY(path_, find_nvrtc(options_.search));
    located_ = true;
    return success();
  }

  Status open() {
    if (nvrtc_) return success();
    RTX_CHECK(locate());
    RTX_TRY(nvrtc_, Nvrtc::open(path_));
    return success();
  }

  // Versions of NVRTC end at the minor: the size tells its builds apart, and is the same wherever one build is installed.
  std::string describe() const {
    std::string out = "nvrtc " + std::to_string(nvrtc_->major()) + "." + std::to_string(nvrtc_->minor());
    const auto words = split(file_stamp(nvrtc_->path()), ' ');
    if (words.size() >= 4) out += " (" + words[words.size() - 3] + " bytes)";
    out += "; arches";
    for (const int number : nvrtc_->archs()) out += " " + std::to_string(number);
    return out;
  }

  Status knows(const std::string& arch, const std::vector<std::string>& numbers) const {
    const Capability capability = capability_of(arch);
    if (capability.major == 0) return user_error("no CUDA arch '" + arch + "'", "the arches are " + join(known_arches(), ", "));
    const std::string number = std::to_string(capability.major) + std::to_string(capability.minor);
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) return success();
    const std::string version = nvrtc_ ? std::to_string(nvrtc_->major()) + "." + std::to_string(nvrtc_->minor()) : identity_.substr(0, identity_.find(" ("));
    return error_of(ErrorKind::device, "target cuda cannot compile for " + arch, (nvrtc_ ? "nvrtc " : "") + version + " knows only sm_" + join(numbers, ", sm_"),
                    "install a newer CUDA toolkit, or name a newer libnvrtc with RTX_NVRTC");
  }

  static Error failed(const Nvrtc& nvrtc, const CompileRequest& request, NvrtcResult code, const std::string& log) {
    const std::string words = nvrtc.call().nvrtcGetErrorString(code);
    if (code == nvrtc_builtin_failed)
      return error_of(ErrorKind::device, "target cuda has no usable compiler", nvrtc.path() + " lacks its second library, libnvrtc-builtins: " + words + " " + log.substr(0, 400), kNvrtcFix);
    if (code == nvrtc_out_of_memory) return error_of(ErrorKind::device, "no memory to compile " + request.name, words);
    return error_of(ErrorKind::internal, "the compiler refused " + request.name, (log.empty() ? words : log).substr(0, 4000));
  }

  static void save(const CompileRequest& request, const char* suffix, std::string_view bytes) {
    if (!request.save_temps.empty()) (void)write_file_atomic(request.save_temps + "/" + request.name + suffix, bytes);
  }

  CompilerOptions options_;
  std::mutex mutex_;
  bool located_ = false;
  std::string path_;      // of the library; empty: only the loader knows
  std::string identity_;  // "nvrtc 13.0 (109338064 bytes); arches 75 80 ..."
  std::shared_ptr<const Nvrtc> nvrtc_;
  FileMemory memory_;
  std::atomic<int64_t> started_{0};
};

}  // namespace

std::unique_ptr<Compiler> make_compiler(CompilerOptions options) { return std::make_unique<CudaCompiler>(std::move(options)); }

}  // namespace rtx::backend::cuda

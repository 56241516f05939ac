#include "backend/cpu/compile.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/file_memory.h"
#include "base/files.h"
#include "base/process.h"
#include "base/temp_directory.h"

namespace rtx::backend::cpu {

namespace {

constexpr const char* kTemporaryPrefix = "rtx-compile-";

std::vector<std::string> flags_for(const std::string& arch, bool clang) {
  std::vector<std::string> flags = {"-std=c++20", "-O3", "-march=" + arch, "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
                                    "-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-fPIC", "-shared", "-w"};
  if (arch == "x86-64-v4") flags.push_back("-mprefer-vector-width=512");
  if (!clang) flags.push_back("-fno-semantic-interposition");
  return flags;
}

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const auto& part : parts) out += (out.empty() ? "" : " ") + part;
  return out;
}

class CpuCompiler final : public Compiler {
 public:
  explicit CpuCompiler(CompilerOptions options) : options_(std::move(options)), versions_(options_.memory_file) {
    if (options_.temporary.empty()) options_.temporary = "/tmp";
    // What killed processes left there; once a process is enough.
    static std::once_flag swept;
    std::call_once(swept, [this] { remove_abandoned_directories(options_.temporary, kTemporaryPrefix); });
  }

  std::string target() const override { return "cpu"; }

  Result<std::string> toolchain(const std::string& arch) override {
    std::lock_guard lock(mutex_);
    RTX_CHECK(locate());
    RTX_TRY(const std::string version, version_line());
    return version + "; " + join(flags(arch, version));
  }

  Result<Binary> compile(const CompileRequest& request) override {
    std::string program, version;
    {
      std::lock_guard lock(mutex_);
      RTX_CHECK(locate());
      RTX_TRY(version, version_line());
      program = program_;
    }
    RTX_TRY(const TempDirectory temporary, TempDirectory::create(options_.temporary, kTemporaryPrefix));
    const std::string& directory = temporary.path();
    const std::string source = directory + "/kernel.cpp", object = directory + "/kernel.so";
    RTX_CHECK(write_file_atomic(source, request.text));
    std::vector<std::string> arguments = {program};
    for (auto& flag : flags(request.arch, version)) arguments.push_back(flag);
    arguments.insert(arguments.end(), {"-nostartfiles", "-Wl,-s", source, "-o", object, "-lm"});
    ++started_;
    // The compiler's own intermediate files go there too, so that nothing stays of one that is killed.
    const ProcessOptions process = {.timeout_seconds = request.timeout_seconds, .stop = options_.stop, .environment = {"TMPDIR=" + directory}};
    RTX_TRY(const ProcessResult result, run_process(arguments, process));
    if (!request.save_temps.empty()) {
      (void)write_file_atomic(request.save_temps + "/" + request.name + ".cpp", request.text);
      (void)write_file_atomic(request.save_temps + "/" + request.name + ".log", join(arguments) + "\n" + result.output);
    }
    if (options_.stop && options_.stop->load()) return error_of(ErrorKind::interrupted, "interrupted while compiling " + request.name);
    if (result.timed_out)
      return error_of(ErrorKind::internal, "compiling " + request.name + " took longer than " + std::to_string(static_cast<int>(request.timeout_seconds)) + " s");
    if (result.exit_code != 0)
      return error_of(ErrorKind::internal, "the compiler refused " + request.name, result.output.substr(0, 4000));
    RTX_TRY(auto bytes, read_file(object));
    Binary binary;
    binary.bytes.resize(bytes.size());
    std::memcpy(binary.bytes.data(), bytes.data(), bytes.size());
    binary.log = result.output;
    return binary;
  }

  int64_t compiles_started() const override { return started_; }

 private:
  static bool is_clang(const std::string& version) { return version.find("clang") != std::string::npos; }

  std::vector<std::string> flags(const std::string& arch, const std::string& version) const {
    auto out = flags_for(arch, is_clang(version));
    out.insert(out.end(), options_.flags.begin(), options_.flags.end());
    return out;
  }

  Status locate() {
    if (!program_.empty()) return success();
    std::vector<std::string> names = {"c++", "g++", "clang++"};
    if (!options_.program.empty()) names = {options_.program};
    for (const auto& name : names) {
      program_ = find_program(name, options_.path);
      if (!program_.empty()) return success();
    }
    return error_of(ErrorKind::device, "target cpu has no C++ compiler",
                    options_.program.empty() ? "none of " + join(names) + " is on PATH" : options_.program + " is not there, or is no program",
                    "install one (apt-get install g++) or name it with RTX_CXX");
  }

  // First line of `program --version`, remembered by the file's stamp so that a second run starts no process.
  Result<std::string> version_line() {
    const std::string stamp = file_stamp(program_);
    if (std::string known = versions_.find(stamp); !known.empty()) return known;
    auto asked = run_process({program_, "--version"}, {.timeout_seconds = 20, .stop = options_.stop});
    if (!asked.ok()) return error_of(ErrorKind::device, "target cpu has no usable C++ compiler", asked.error().what + ": " + asked.error().why, "install one (apt-get install g++) or name it with RTX_CXX");
    const ProcessResult result = *std::move(asked);
    if (options_.stop && options_.stop->load()) return error_of(ErrorKind::interrupted, "interrupted while asking the compiler for its version");
    if (result.exit_code != 0)
      return error_of(ErrorKind::device, "target cpu has no usable C++ compiler", program_ + (result.timed_out ? " --version does not end; " : " --version failed: ") + result.output.substr(0, 400),
                      "install one (apt-get install g++) or name it with RTX_CXX");
    const std::string version = result.output.substr(0, result.output.find('\n'));
    versions_.remember(stamp, version);
    return version;
  }

  CompilerOptions options_;
  std::mutex mutex_;
  std::string program_;
  FileMemory versions_;
  std::atomic<int64_t> started_{0};
};

}  // namespace

std::unique_ptr<Compiler> make_compiler(CompilerOptions options) { return std::make_unique<CpuCompiler>(std::move(options)); }

}  // namespace rtx::backend::cpu

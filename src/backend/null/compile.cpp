#include "backend/null/compile.h"

#include <atomic>
#include <cstring>

#include "base/files.h"

namespace rtx::backend::null {

namespace {

class NullCompiler final : public Compiler {
 public:
  std::string target() const override { return "null"; }

  // A real one: "<product> <version>; <flags>", remembered so that no process starts to answer it twice; kind
  // device, with what to install, where there is no compiler.
  Result<std::string> toolchain(const std::string&) override { return std::string("text 1"); }

  // A real one: a temporary file or the vendor's library, with a time limit; kind internal with the log where
  // it refuses our text.
  Result<Binary> compile(const CompileRequest& request) override {
    ++started_;
    if (!request.save_temps.empty())
      (void)write_file_atomic(request.save_temps + "/" + request.name + ".txt", request.text);
    Binary binary;
    binary.bytes.resize(request.text.size());
    std::memcpy(binary.bytes.data(), request.text.data(), request.text.size());
    return binary;
  }

  int64_t compiles_started() const override { return started_; }

 private:
  std::atomic<int64_t> started_{0};  // compile() is called from several threads
};

}  // namespace

std::unique_ptr<Compiler> make_compiler() { return std::make_unique<NullCompiler>(); }

}  // namespace rtx::backend::null

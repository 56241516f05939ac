#include "backend/emulator/compile.h"

#include "backend/cpu/identify.h"
#include "backend/emulator/caps.h"
#include "backend/emulator/prelude_abi.h"

namespace rtx::backend::emulator {

namespace {

class EmulatorCompiler final : public Compiler {
 public:
  explicit EmulatorCompiler(std::unique_ptr<Compiler> host) : host_(std::move(host)), host_arch_(cpu::identify(1).arch) {}

  std::string target() const override { return kTarget; }
  Result<std::string> toolchain(const std::string&) override {
    RTX_TRY(const std::string host, host_->toolchain(host_arch_));
    return "emulator " + std::to_string(rtx_emulation::kVersion) + "; " + host;
  }
  Result<Binary> compile(const CompileRequest& request) override {
    CompileRequest here = request;
    here.arch = host_arch_;
    return host_->compile(here);
  }
  int64_t compiles_started() const override { return host_->compiles_started(); }

 private:
  std::unique_ptr<Compiler> host_;
  std::string host_arch_;
};

}  // namespace

std::unique_ptr<Compiler> make_compiler(cpu::CompilerOptions options) {
  // Checks pay for compiling, hardly for running: the families' tests take 20 s with -O0, 42 with -O1, 57 with -O2, and matrix
  // instructions run in the device either way. Kernels reinterpret scratch as they like.
  options.flags.insert(options.flags.begin(), {"-O0", "-fno-strict-aliasing"});
  return std::make_unique<EmulatorCompiler>(cpu::make_compiler(std::move(options)));
}

}  // namespace rtx::backend::emulator

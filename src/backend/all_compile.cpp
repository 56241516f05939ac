#include "backend/all_compile.h"

#include "backend/cpu/compile.h"
#include "backend/cpu/dialect.h"
#include "backend/cuda/compile.h"
#include "backend/cuda/dialect.h"
#include "backend/emulator/compile.h"
#include "backend/emulator/dialect.h"

namespace rtx::backend {

namespace {

std::unique_ptr<Compiler> cpu_compiler(const CompileSettings& settings) {
  return cpu::make_compiler({settings.program, settings.path, settings.temporary, settings.memory_file, {}, settings.stop});
}

std::unique_ptr<Compiler> emulator_compiler(const CompileSettings& settings) {
  return emulator::make_compiler({settings.program, settings.path, settings.temporary, settings.memory_file, {}, settings.stop});
}

std::unique_ptr<Compiler> cuda_compiler(const CompileSettings& settings) {
  cuda::CompilerOptions options;
  options.search.library = settings.nvrtc;
  options.search.roots = settings.cuda_roots;
  options.memory_file = settings.memory_file;
  options.stop = settings.stop;
  return cuda::make_compiler(std::move(options));
}

}  // namespace

// One line a backend. null is not among them: it computes nothing.
const std::vector<CompileSide>& all_compilers() {
  static const std::vector<CompileSide> list = {
      {"cpu", cpu_compiler, cpu::make_dialect},
      {"cuda", cuda_compiler, cuda::make_dialect, "sm_90a"},
      {"cuda-emulated", emulator_compiler, emulator::make_dialect},
  };
  return list;
}

}  // namespace rtx::backend

#include "backend/all_compile.h"

#include "backend/cpu/compile.h"
#include "backend/cpu/dialect.h"

namespace rtx::backend {

namespace {

std::unique_ptr<Compiler> cpu_compiler(const CompileSettings& settings) {
  return cpu::make_compiler({settings.program, settings.path, settings.temporary, settings.memory_file, settings.stop});
}

}  // namespace

// One line a backend. null is not among them: it computes nothing.
const std::vector<CompileSide>& all_compilers() {
  static const std::vector<CompileSide> list = {
      {"cpu", cpu_compiler, cpu::make_dialect},
  };
  return list;
}

}  // namespace rtx::backend

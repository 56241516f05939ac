#pragma once
// For tests: the real NVRTC, where this machine has one (a toolkit, or RTX_NVRTC as scripts/install-deps.sh arranges it).
#include <cstdlib>
#include <memory>
#include <string>

#include "backend/cuda/compile.h"

namespace rtx::backend::cuda::testing {

inline CompilerOptions options_here() {
  CompilerOptions options;
  if (const char* library = std::getenv("RTX_NVRTC")) options.search.library = library;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(name)) options.search.roots.emplace_back(root);
  return options;
}

// Why there is no NVRTC here; empty when there is one.
inline const std::string& why_no_nvrtc() {
  static const std::string why = [] {
    const auto found = make_compiler(options_here())->toolchain("sm_80");
    return found.ok() ? std::string() : found.error().text();
  }();
  return why;
}

inline Result<Binary> compile(Compiler& compiler, const std::string& text, const std::string& arch, double timeout_seconds = 60) {
  CompileRequest request;
  request.name = "kernel";
  request.text = text;
  request.arch = arch;
  request.timeout_seconds = timeout_seconds;
  return compiler.compile(request);
}

}  // namespace rtx::backend::cuda::testing

#define RTX_NEEDS_NVRTC() \
  if (!::rtx::backend::cuda::testing::why_no_nvrtc().empty()) GTEST_SKIP() << ::rtx::backend::cuda::testing::why_no_nvrtc()

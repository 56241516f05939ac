#pragma once
// Every compile side this build has. Only tools and tests include this.
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/compiler.h"
#include "codegen/dialect.h"

namespace rtx::backend {

// What the environment says; each side takes what it understands.
struct CompileSettings {
  std::string program;      // the C++ compiler to use; empty: the first that is found
  std::string path;         // where programs are looked up
  std::string temporary;    // directory for intermediate files
  std::string memory_file;  // where toolchain identities are remembered; empty: only in this process
  const std::atomic<bool>* stop = nullptr;  // set by Ctrl-C: running compilers are ended
  std::string nvrtc{};                      // NVRTC's library or its folder; empty: the first that is found
  std::vector<std::string> cuda_roots{};    // CUDA toolkits to look in first
};
struct CompileSide {
  std::string_view target;
  std::unique_ptr<Compiler> (*compiler)(const CompileSettings& settings);
  codegen::Dialect (*dialect)(const Caps& caps);
  std::string_view usual_arch{};  // what is compiled for where no device says its own
};

const std::vector<CompileSide>& all_compilers();

}  // namespace rtx::backend

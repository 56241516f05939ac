#pragma once
// The CPU target's compile side: emitted C++ -> the system's compiler -> a shared object. No system header is included by
// emitted text, so a kernel compiles in about 0.2 s.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backend/compiler.h"

namespace rtx::backend::cpu {

struct CompilerOptions {
  std::string program;      // "g++", "/usr/bin/clang++"; empty: the first of c++, g++, clang++ on `path`
  std::string path;         // where programs are looked up: the value of PATH
  std::string temporary;    // directory for intermediate files; empty: /tmp
  std::string memory_file;  // where toolchain identities are remembered (path, size, time -> version); empty: only in this process
  std::vector<std::string> flags;  // behind the target's own, so that they win
  const std::atomic<bool>* stop = nullptr;  // set by Ctrl-C: running compilers are ended
};

std::unique_ptr<Compiler> make_compiler(CompilerOptions options);

}  // namespace rtx::backend::cpu

#pragma once
// The CUDA target's compile side: emitted text -> NVRTC -> a cubin, in this process and the calling thread, with no GPU, no toolkit
// header and no other process. A binary is judged by the compiler's log (compile_log.h) before it is handed out.
//
// Limits: a time limit or Ctrl-C ends a compilation at the compiler's next step where NVRTC can be asked to (12.9 and newer; every few
// milliseconds), and after it otherwise. A text that makes NVRTC itself crash takes the process with it: NVRTC 13.0 does so for
// sm_90 and newer on ldmatrix and stmatrix from a constant shared address.
#include <atomic>
#include <memory>
#include <string>

#include "backend/compiler.h"
#include "backend/cuda/nvrtc_library.h"

namespace rtx::backend::cuda {

struct CompilerOptions {
  NvrtcSearch search;
  std::string memory_file;  // where the library's version is remembered (path, size, time -> version); empty: only in this process
  const std::atomic<bool>* stop = nullptr;  // set by Ctrl-C
};

std::unique_ptr<Compiler> make_compiler(CompilerOptions options);

}  // namespace rtx::backend::cuda

#pragma once
// Compiler: the compile side of a backend (source -> binary). Deployed programs do not link it.
#include <memory>
#include <string>

#include "backend/caps.h"
#include "backend/kernel.h"
#include "base/result.h"

namespace rtx::backend {

struct CompileRequest {
  std::string name;          // for file names and messages
  std::string text;          // self-contained source
  std::string arch;          // Caps::arch of the device it is for
  std::string save_temps;    // directory that keeps source and log; empty: nothing is kept
  double timeout_seconds = 60.0;
};

// It compiled, and what the compiler said of it forbids its use (registers that spill, say): kind check_failed, the compiler's words in
// `why`. A tuner counts these as candidates that lost, not as a compiler that fails.
inline Error rejected_binary(const std::string& name, std::string why) {
  return error_of(ErrorKind::check_failed, "the compiler's log rules out " + name, std::move(why));
}
inline bool is_rejected_binary(const Error& error) { return error.kind == ErrorKind::check_failed; }

class Compiler {
 public:
  virtual ~Compiler() = default;
  virtual std::string target() const = 0;
  // The toolchain's identity (product, version, flags) for keys, remembered by resolved path, size and time: no compiler is
  // started to answer it twice. Kind device when there is no usable compiler: what is missing and how to install it.
  virtual Result<std::string> toolchain(const std::string& arch) = 0;
  // Thread-safe. Errors: kind device (no compiler), kind internal with the compiler's log in `why` (it refused our text),
  // kind check_failed by rejected_binary.
  virtual Result<Binary> compile(const CompileRequest& request) = 0;
  // Compilations started by this object so far.
  virtual int64_t compiles_started() const = 0;
};

}  // namespace rtx::backend

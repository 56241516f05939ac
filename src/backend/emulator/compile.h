#pragma once
// The compile side of `--target cuda --emulate`: the system's C++ compiler over a text that opens with the emulator's primitives.
#include <atomic>
#include <memory>
#include <string>

#include "backend/compiler.h"
#include "backend/cpu/compile.h"

namespace rtx::backend::emulator {

// Options as the CPU's; the program compiles for this machine, whatever the emulated arch.
std::unique_ptr<Compiler> make_compiler(cpu::CompilerOptions options);

}  // namespace rtx::backend::emulator

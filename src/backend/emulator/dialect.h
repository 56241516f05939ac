#pragma once
// The GPU kernel language as the emulator runs it: CUDA's dialect with the emulator's primitives.
#include "codegen/dialect.h"

namespace rtx::backend::emulator {

codegen::Dialect make_dialect(const Caps& caps);

}  // namespace rtx::backend::emulator

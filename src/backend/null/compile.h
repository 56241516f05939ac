#pragma once
// The null target's compile side: the binary is the text. What a real one does instead stands in README.md.
#include <memory>

#include "backend/compiler.h"

namespace rtx::backend::null {

std::unique_ptr<Compiler> make_compiler();

}  // namespace rtx::backend::null

#pragma once
// How the CPU target spells the kernel language.
#include "codegen/dialect.h"

namespace rtx::backend::cpu {

codegen::Dialect make_dialect(const Caps& caps);

}  // namespace rtx::backend::cpu

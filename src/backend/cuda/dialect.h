#pragma once
// How the CUDA target spells the kernel language.
#include "codegen/dialect.h"

namespace rtx::backend::cuda {

codegen::Dialect make_dialect(const Caps& caps);

}  // namespace rtx::backend::cuda

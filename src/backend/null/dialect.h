#pragma once
// How the null target spells the kernel language: it does not, so the prelude has the shared words and
// nothing behind them.
#include "codegen/dialect.h"

namespace rtx::backend::null {

codegen::Dialect make_dialect(const Caps& caps);

}  // namespace rtx::backend::null

#include "backend/emulator/dialect.h"

#include "backend/cuda/dialect.h"

namespace rtx::backend::emulator {

codegen::Dialect make_dialect(const Caps& caps) {
  codegen::Dialect dialect = cuda::make_dialect(caps);
  dialect.target = caps.target;
  dialect.comment = "emulated " + caps.arch;
  for (auto& prelude : dialect.preludes) {
    if (prelude != "backend/cuda/prelude.h") continue;
    prelude = "backend/emulator/prelude.h";
    dialect.preludes.insert(dialect.preludes.begin(), "backend/emulator/prelude_abi.h");
    break;
  }
  return dialect;
}

}  // namespace rtx::backend::emulator

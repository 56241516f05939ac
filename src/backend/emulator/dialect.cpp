#include "backend/emulator/dialect.h"

#include "backend/cuda/dialect.h"

namespace rtx::backend::emulator {

codegen::Dialect make_dialect(const Caps& caps) {
  codegen::Dialect dialect = cuda::make_dialect(caps);
  dialect.target = caps.target;
  dialect.comment = "emulated " + caps.arch;
  dialect.preludes = {"backend/emulator/prelude_abi.h"};
  for (const auto& prelude : cuda::make_dialect(caps).preludes) {
    if (prelude == "backend/cuda/prelude.h") dialect.preludes.emplace_back("backend/emulator/prelude.h");
    else if (prelude == "backend/cuda/prelude_hopper.h") dialect.preludes.emplace_back("backend/emulator/prelude_hopper.h");
    else dialect.preludes.push_back(prelude);
  }
  return dialect;
}

}  // namespace rtx::backend::emulator

#include "backend/cuda/dialect.h"

namespace rtx::backend::cuda {

codegen::Dialect make_dialect(const Caps& caps) {
  codegen::Dialect dialect;
  dialect.target = "cuda";
  dialect.preludes = {"backend/cuda/prelude.h", "codegen/gpu.inc.h"};
  if (caps.has("wgmma")) dialect.preludes.insert(dialect.preludes.begin() + 1, "backend/cuda/prelude_hopper.h");
  dialect.explicit_vectors = false;
  dialect.preferred_lanes_f32 = 4;  // 16 bytes, a thread's widest access
  dialect.comment = "cuda " + caps.arch;
  return dialect;
}

}  // namespace rtx::backend::cuda

#include "backend/cpu/dialect.h"

namespace rtx::backend::cpu {

codegen::Dialect make_dialect(const Caps& caps) {
  codegen::Dialect dialect;
  dialect.target = "cpu";
  dialect.preludes = {"backend/cpu/prelude.h", "codegen/row.inc.h"};
  dialect.explicit_vectors = true;
  dialect.preferred_lanes_f32 = caps.vector_bits / 32;
  dialect.comment = "cpu " + caps.arch;
  return dialect;
}

}  // namespace rtx::backend::cpu

#include "backend/null/dialect.h"

namespace rtx::backend::null {

codegen::Dialect make_dialect(const Caps& caps) {
  codegen::Dialect dialect;
  dialect.target = "null";
  dialect.preludes = {"backend/null/prelude.h"};
  dialect.explicit_vectors = false;  // no vec<T, N> in the prelude
  dialect.preferred_lanes_f32 = 1;
  dialect.comment = "null " + caps.arch;
  return dialect;
}

}  // namespace rtx::backend::null

#include "kernels/movement/movement.h"

namespace rtx::kernels::movement {

static_assert(KernelFamily<Family>);

Work Family::work(const Problem& problem) { return problem.work; }

Tolerance Family::tolerance(const Problem& problem) {
  return {problem.moves_only ? ToleranceClass::exact : ToleranceClass::elementwise, 1};
}

}  // namespace rtx::kernels::movement

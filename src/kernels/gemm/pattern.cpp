#include "kernels/gemm/gemm.h"

namespace rtx::kernels::gemm {

static_assert(KernelFamily<Family>);

fuse::Pattern Family::pattern() {
  fuse::Pattern pattern;
  pattern.name = std::string(name());
  pattern.anchor = [](const ir::Graph& graph, ir::NodeId id) { return graph.node(id).op == ir::Op::matmul; };
  pattern.grows_down = true;
  pattern.grows_up = true;  // views only: problem() refuses an operand that has to be computed
  pattern.accepts = accepts<Family>;
  return pattern;
}

}  // namespace rtx::kernels::gemm

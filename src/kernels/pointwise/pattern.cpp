#include "codegen/lower.h"
#include "kernels/pointwise/pointwise.h"

namespace rtx::kernels::pointwise {

fuse::Pattern Family::pattern() {
  fuse::Pattern out;
  out.name = "pointwise";
  out.anchor = [](const ir::Graph& graph, ir::NodeId node) { return ir::info(graph.node(node).op).op_class == ir::OpClass::pointwise; };
  out.grows_down = true;
  out.grows_up = true;
  out.max_outputs = 4;
  out.accepts = accepts<Family>;
  return out;
}

Result<Problem> Family::problem(const ir::Graph& body) {
  for (const auto& node : body.nodes)
    if (!codegen::lowers(node.op))
      return user_error("not pointwise", std::string(ir::name(node.op)) + " is neither pointwise nor a movement of data");
  Problem out;
  out.name = plan_name(name(), body);
  RTX_TRY(out.program, lower_program(body));
  double flops = 0;
  for (const auto& nest : out.program.nests) flops += static_cast<double>(nest.count() * nest.dag.flops());
  out.work = work_of(body, flops);
  out.moves_only = all_nodes(body, [](const ir::Node& n) { return ir::info(n.op).op_class == ir::OpClass::movement && n.op != ir::Op::rotary; });
  return out;
}

}  // namespace rtx::kernels::pointwise

#include "kernels/anchored.h"
#include "kernels/softmax/softmax.h"

namespace rtx::kernels::softmax {

using codegen::Index;
using ir::Op;
using ir::ValueId;

namespace {

bool is_anchor(Op op) { return op == Op::softmax || op == Op::log_softmax; }

Status lower_body(Problem& problem, const ir::Graph& body, const ir::Node& anchor) {
  const ValueId x = anchor.inputs[0], result = anchor.outputs[0];
  const auto extents = body.extents(x);
  const auto axis = static_cast<std::ptrdiff_t>(anchor.attributes.integer("axis"));
  const std::vector<int64_t> leading(extents.begin(), extents.begin() + axis), trailing(extents.begin() + axis + 1, extents.end());
  std::vector<Index> at;
  if (problem.column_form) {
    at = codegen::unravel(Index::variable(0, problem.outer), leading);
    at.push_back(Index::variable(1, problem.axis));
    for (const Index& c : codegen::unravel(Index::variable(2, problem.inner), trailing)) at.push_back(c);
  } else {
    std::vector<int64_t> others = leading;
    others.insert(others.end(), trailing.begin(), trailing.end());
    at = codegen::unravel(Index::variable(0, problem.outer), others);
    at.insert(at.begin() + axis, Index::variable(1, problem.axis));
  }

  const auto from_result = dependents_of(body, result);
  codegen::Lowering prologue(body), epilogue(body);
  for (auto* lowering : {&prologue, &epilogue}) lowering->define_leaf(result, 0, at);
  RTX_TRY(problem.x, prologue.element(x, at));
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const ValueId output = body.outputs[k];
    auto& phase = from_result[static_cast<size_t>(output)] ? epilogue : prologue;
    RTX_TRY(const auto stored_at, related_coordinates(body, &phase == &epilogue ? result : x, output, at));
    RTX_TRY(const int element, phase.element(output, stored_at));
    RTX_CHECK(phase.store(static_cast<int>(k), stored_at, element));
  }
  problem.prologue = prologue.take();
  problem.epilogue = epilogue.take();
  return success();
}

}  // namespace

fuse::Pattern Softmax::pattern() {
  fuse::Pattern pattern;
  pattern.name = name();
  pattern.anchor = [](const ir::Graph& graph, ir::NodeId node) { return is_anchor(graph.node(node).op); };
  pattern.grows_up = true;
  pattern.max_outputs = 2;
  pattern.accepts = accepts<Softmax>;
  return pattern;
}

Result<Problem> Softmax::problem(const ir::Graph& body) {
  RTX_TRY(const ir::NodeId id, only_anchor(body));
  const ir::Node& anchor = body.node(id);
  if (!is_anchor(anchor.op)) return user_error("softmax does not compute " + std::string(ir::name(anchor.op)));
  RTX_CHECK(require_f32_arithmetic(body, anchor.inputs[0], name()));
  Problem problem;
  problem.body = body;
  problem.logarithm = anchor.op == Op::log_softmax;
  problem.dtype = body.value(anchor.inputs[0]).dtype;
  const auto extents = body.extents(anchor.inputs[0]);
  const int64_t axis = anchor.attributes.integer("axis");
  problem.outer = problem.inner = 1;
  for (int64_t d = 0; d < static_cast<int64_t>(extents.size()); ++d)
    if (d != axis) (d < axis ? problem.outer : problem.inner) *= extents[static_cast<size_t>(d)];
  problem.axis = extents[static_cast<size_t>(axis)];
  problem.column_form = problem.inner >= kFewestColumns;
  if (!problem.column_form) {
    problem.outer *= problem.inner;
    problem.inner = 1;
  }
  const int64_t longest = problem.column_form ? kLongestColumn : kLongestAxis;
  if (problem.axis > longest)
    return user_error("the softmax axis is too long for a thread's scratch",
                      std::to_string(problem.axis) + " elements; at most " + std::to_string(longest));
  if (problem.outer * problem.axis * problem.inner == 0) return problem;  // nothing to store
  RTX_CHECK(lower_body(problem, body, anchor));
  return problem;
}

std::string Softmax::key(const Problem& p) {
  return std::string(p.logarithm ? "log_softmax " : "softmax ") + std::to_string(p.outer) + "x" + std::to_string(p.axis) + "x" +
         std::to_string(p.inner) + "\nprologue " + p.prologue.text() + "\nrow element " + std::to_string(p.x) + "\nepilogue " +
         p.epilogue.text();
}

}  // namespace rtx::kernels::softmax

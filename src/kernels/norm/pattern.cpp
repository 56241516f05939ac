#include "kernels/anchored.h"
#include "kernels/norm/norm.h"

namespace rtx::kernels::norm {

using codegen::Index;
using ir::Op;
using ir::ValueId;

namespace {

bool is_anchor(Op op) { return op == Op::layer_norm || op == Op::rms_norm; }

// Adds n * scale + bias as nodes: the epilogue then loads scale and bias like any other operand.
ValueId scaled(ir::Graph& graph, ValueId n, const ir::Node& anchor) {
  ValueId y = n;
  for (size_t k = 1; k < anchor.inputs.size(); ++k)
    if (anchor.inputs[k] != ir::kNoValue) y = graph.add_node(k == 1 ? Op::mul : Op::add, {y, anchor.inputs[k]});
  return y;
}

// Lowers the body's outputs, each in the phase that can: while the row is read, after its statistics, or at the end.
Status lower_outputs(Problem& problem, ir::Graph& graph, const ir::Node& anchor, const std::vector<ValueId>& results) {
  const auto extents = graph.extents(anchor.inputs[0]);
  const size_t axis = static_cast<size_t>(anchor.attributes.integer("axis"));
  const std::vector<int64_t> leading(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(axis));
  const std::vector<int64_t> trailing(extents.begin() + static_cast<std::ptrdiff_t>(axis), extents.end());
  std::vector<Index> at = codegen::unravel(Index::variable(0, problem.rows), leading);
  std::vector<Index> row_at = at;
  for (const Index& c : codegen::unravel(Index::variable(1, problem.columns), trailing)) {
    at.push_back(c);
    row_at.push_back(Index(0));
  }

  const ValueId normalised = results[0];
  replace_uses(graph, normalised, scaled(graph, normalised, anchor));
  RTX_TRY(graph, ir::sorted(std::move(graph)));
  const auto from_result = dependents_of(graph, normalised);

  codegen::Lowering prologue(graph), statistics(graph), epilogue(graph);
  for (auto* lowering : {&prologue, &statistics, &epilogue}) {
    lowering->define_leaf(normalised, kNormalised, at);
    if (results.size() > 1) lowering->define_leaf(results[1], kMean, row_at);
    if (results.size() > 2) lowering->define_leaf(results[2], kSpread, row_at);
  }
  RTX_TRY(problem.x, prologue.element(anchor.inputs[0], at));
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    const ValueId output = graph.outputs[k];
    codegen::Lowering* phase = &prologue;
    std::vector<Index> stored_at;
    if (from_result[static_cast<size_t>(output)]) {
      phase = &epilogue;
      RTX_TRY(stored_at, codegen::output_coordinates(graph, normalised, output, at));
    } else {
      for (size_t r = 1; r < results.size() && phase == &prologue; ++r) {
        if (!dependents_of(graph, results[r])[static_cast<size_t>(output)]) continue;
        phase = &statistics;
        RTX_TRY(stored_at, codegen::output_coordinates(graph, results[r], output, row_at));
      }
      if (phase == &prologue) {
        RTX_TRY(stored_at, related_coordinates(graph, anchor.inputs[0], output, at));
      }
    }
    RTX_TRY(const int element, phase->element(output, stored_at));
    RTX_CHECK(phase->store(static_cast<int>(k), stored_at, element));
  }
  problem.prologue = prologue.take();
  problem.statistics = statistics.take();
  problem.epilogue = epilogue.take();
  return success();
}

}  // namespace

fuse::Pattern Norm::pattern() {
  fuse::Pattern pattern;
  pattern.name = name();
  pattern.anchor = [](const ir::Graph& graph, ir::NodeId node) { return is_anchor(graph.node(node).op); };
  pattern.grows_up = true;
  pattern.max_outputs = 4;  // y, mean, 1 / deviation, the residual sum
  pattern.accepts = accepts<Norm>;
  return pattern;
}

Result<Problem> Norm::problem(const ir::Graph& body) {
  RTX_TRY(const ir::NodeId id, only_anchor(body));
  const ir::Node anchor = body.node(id);
  if (!is_anchor(anchor.op)) return user_error("norm does not compute " + std::string(ir::name(anchor.op)));
  RTX_CHECK(require_f32_arithmetic(body, anchor.inputs[0], name()));
  Problem problem;
  problem.body = body;
  problem.op = ir::name(anchor.op);
  problem.centred = anchor.op == Op::layer_norm;
  problem.epsilon = anchor.attributes.real("epsilon");
  problem.dtype = body.value(anchor.inputs[0]).dtype;
  const auto extents = body.extents(anchor.inputs[0]);
  const int64_t axis = anchor.attributes.integer("axis");
  problem.rows = problem.columns = 1;
  for (size_t d = 0; d < extents.size(); ++d) (static_cast<int64_t>(d) < axis ? problem.rows : problem.columns) *= extents[d];
  if (problem.columns > kLongestRow)
    return user_error("the normalised row is too long for a thread's scratch",
                      std::to_string(problem.columns) + " elements; at most " + std::to_string(kLongestRow));
  if (problem.columns == 0 && anchor.outputs.size() > 1 && problem.rows > 0)
    return user_error("the statistics of empty rows are not computed here");
  if (problem.rows * problem.columns == 0) return problem;  // nothing to store
  Opened opened = open_at(body, id);
  RTX_CHECK(lower_outputs(problem, opened.graph, anchor, opened.results));
  return problem;
}

std::string Norm::key(const Problem& p) {
  return "norm " + p.op + " " + std::to_string(p.rows) + "x" + std::to_string(p.columns) + " epsilon " +
         codegen::literal_text(ir::DType::f64, p.epsilon, 0) + "\nprologue " + p.prologue.text() + "\nrow element " + std::to_string(p.x) +
         "\nstatistics " + p.statistics.text() + "\nepilogue " + p.epilogue.text();
}

}  // namespace rtx::kernels::norm

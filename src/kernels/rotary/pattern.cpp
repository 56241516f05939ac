#include "kernels/anchored.h"
#include "kernels/rotary/rotary.h"

namespace rtx::kernels::rotary {

using codegen::Index;
using ir::Op;

namespace {

Status lower_body(Problem& p, const ir::Graph& body, ir::NodeId id) {
  const ir::Node anchor = body.node(id);
  const Opened opened = open_at(body, id);
  const ir::Graph& graph = opened.graph;
  const auto extents = graph.extents(anchor.inputs[0]);
  const int64_t half = p.turned / 2;
  const auto rows = codegen::unravel(Index::variable(0, p.rows), {extents[0], extents[1], extents[2]});
  const auto at = [&](const Index& column) { return std::vector<Index>{rows[0], rows[1], rows[2], column}; };
  if (half > 0) {
    const Index pair = Index::variable(1, half);
    const auto low = at(p.interleaved ? pair * 2 : pair), high = at(p.interleaved ? pair * 2 + Index(1) : pair + Index(half));
    const auto angle = [&](size_t input) {
      return std::vector<Index>{graph.extents(anchor.inputs[input])[0] == 1 ? Index(0) : rows[0], rows[2], pair};
    };
    codegen::Lowering turn(graph);
    RTX_TRY(p.a, turn.element(anchor.inputs[0], low));
    RTX_TRY(p.b, turn.element(anchor.inputs[0], high));
    RTX_TRY(p.cosine, turn.element(anchor.inputs[1], angle(1)));
    RTX_TRY(p.sine, turn.element(anchor.inputs[2], angle(2)));
    p.turn = turn.take();
    RTX_TRY(p.low, codegen::lower_epilogue(graph, opened.results[0], 0, low));
    RTX_TRY(p.high, codegen::lower_epilogue(graph, opened.results[0], 0, high));
  }
  if (p.turned < p.columns) {
    const auto behind = at(Index::variable(1, p.columns - p.turned) + Index(p.turned));
    RTX_TRY(auto rest, codegen::lower_value(graph, anchor.inputs[0], behind));
    p.rest = std::move(rest.dag);
    p.passed = rest.element;
    RTX_TRY(p.behind, codegen::lower_epilogue(graph, opened.results[0], 0, behind));
  }
  if ((half > 0 ? p.low : p.behind).stores.size() != graph.outputs.size())
    return user_error("rotary stores only what follows from its result", "a result of the region does not");
  return success();
}

}  // namespace

fuse::Pattern Rotary::pattern() {
  fuse::Pattern pattern;
  pattern.name = name();
  pattern.anchor = [](const ir::Graph& graph, ir::NodeId node) { return graph.node(node).op == Op::rotary; };
  pattern.grows_up = true;
  pattern.accepts = accepts<Rotary>;
  return pattern;
}

Result<Problem> Rotary::problem(const ir::Graph& body) {
  RTX_TRY(const ir::NodeId id, only_anchor(body, Op::rotary));
  const ir::Node& anchor = body.node(id);
  if (anchor.op != Op::rotary) return user_error("rotary does not compute " + std::string(ir::name(anchor.op)));
  RTX_CHECK(require_f32_arithmetic(body, anchor.inputs[0], name()));
  const auto extents = body.extents(anchor.inputs[0]);
  Problem p;
  p.body = body;
  p.rows = extents[0] * extents[1] * extents[2];
  p.columns = extents[3];
  p.turned = anchor.attributes.integer("rotary_dim");
  p.interleaved = anchor.attributes.integer("interleaved") != 0;
  p.dtype = body.value(anchor.inputs[0]).dtype;
  if (p.columns > kWidestRow)
    return user_error("the row is too wide for a thread's scratch", std::to_string(p.columns) + " elements; at most " + std::to_string(kWidestRow));
  if (p.rows * p.columns == 0) return p;  // nothing to store
  RTX_CHECK(lower_body(p, body, id));
  return p;
}

std::string Rotary::key(const Problem& p) {
  std::string out = "rotary " + std::to_string(p.rows) + "x" + std::to_string(p.columns) + " turned " + std::to_string(p.turned) +
                    (p.interleaved ? " neighbours" : " halves") + "\nturn";
  for (const int element : {p.a, p.b, p.cosine, p.sine}) out += " t" + std::to_string(element);
  out += " of " + p.turn.text() + "\nrest t" + std::to_string(p.passed) + " of " + p.rest.text();
  return out + "\nlow " + p.low.text() + "\nhigh " + p.high.text() + "\nbehind " + p.behind.text();
}

}  // namespace rtx::kernels::rotary

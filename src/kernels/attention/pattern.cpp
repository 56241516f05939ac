#include "kernels/anchored.h"
#include "kernels/attention/attention.h"

namespace rtx::kernels::attention {

using codegen::Index;
using ir::Op;
using ir::ValueId;

namespace {

// `rows` and `along` are the variables of an operand's last two dimensions, `head` that of its heads.
Result<Operand> lower_operand(const ir::Graph& graph, ValueId value, Variable rows, Variable along) {
  const auto extents = graph.extents(value);
  const std::vector<Index> at = {Index::variable(kBatch, extents[0]), Index::variable(kHead, extents[1]),
                                 Index::variable(rows, extents[2]), Index::variable(along, extents[3])};
  RTX_TRY(auto lowered, codegen::lower_value(graph, value, at));
  Operand out;
  out.dag = std::move(lowered.dag);
  out.element = lowered.element;
  out.dtype = graph.value(value).dtype;
  if (out.dag.elements.size() == 1 && out.dag.elements[0].kind == codegen::Element::Kind::load) {
    const Index& offset = out.dag.elements[0].offset;
    int64_t step = 0;
    out.in_place = (extents[3] <= 1 || (offset.affine_in(along, 1, &step) && step == 1)) &&
                   (extents[2] <= 1 || offset.affine_in(rows, 1, &out.row_stride));
  }
  return out;
}

// Adds the mask's step to the graph: score + mask, or the score where the mask keeps it.
Result<ValueId> add_mask(ir::Graph& graph, ValueId scores, ValueId mask) {
  if (graph.value(mask).dtype != ir::DType::boolean) {
    // A half mask is widened, not the scores rounded.
    if (graph.value(mask).dtype != ir::DType::f32) {
      const auto shape = graph.value(mask).shape;
      RTX_TRY(mask, graph.try_add_node_as(Op::cast, {mask}, ir::DType::f32, shape));
    }
    return graph.try_add_node(Op::add, {scores, mask});
  }
  const ValueId none = graph.add_constant(graph.fresh_name("none"), ir::HostTensor::scalar(ir::DType::f32, -__builtin_inf()));
  return graph.try_add_node(Op::where, {mask, scores, none});
}

Status lower_mask(Problem& problem, ir::Graph graph, ValueId mask) {
  const std::vector<int64_t> extents = {problem.batch, problem.query_heads, problem.queries, problem.keys};
  const ValueId scores = graph.add_input(graph.fresh_name("scores"), ir::DType::f32, ir::to_shape(extents));
  RTX_TRY(const ValueId masked, add_mask(graph, scores, mask));
  const std::vector<Index> at = {Index::variable(kBatch, problem.batch), Index::variable(kHead, problem.query_heads),
                                 Index::variable(kQuery, problem.queries), Index::variable(kKey, problem.keys)};
  codegen::Lowering lowering(graph);
  lowering.define_leaf(scores, 0, at);
  RTX_TRY(problem.masked, lowering.element(masked, at));
  problem.mask = lowering.take();
  return success();
}

Status lower_body(Problem& problem, const ir::Graph& body, ir::NodeId id) {
  const ir::Node anchor = body.node(id);
  const Opened opened = open_at(body, id);
  const ir::Graph& graph = opened.graph;
  RTX_TRY(problem.q, lower_operand(graph, anchor.inputs[0], kQuery, kDepth));
  RTX_TRY(problem.k, lower_operand(graph, anchor.inputs[1], kKey, kDepth));
  RTX_TRY(problem.v, lower_operand(graph, anchor.inputs[2], kKey, kWidth));
  if (anchor.inputs.size() > 3 && anchor.inputs[3] != ir::kNoValue) RTX_CHECK(lower_mask(problem, graph, anchor.inputs[3]));
  if (anchor.inputs.size() > 4 && anchor.inputs[4] != ir::kNoValue) {
    RTX_TRY(auto lowered, codegen::lower_value(graph, anchor.inputs[4], {Index::variable(kBatch, problem.batch)}));
    problem.valid_length = std::move(lowered.dag);
    problem.valid = lowered.element;
  }
  const std::vector<Index> at = {Index::variable(kBatch, problem.batch), Index::variable(kHead, problem.query_heads),
                                 Index::variable(kQuery, problem.queries), Index::variable(kWidth, problem.width)};
  RTX_TRY(problem.epilogue, codegen::lower_epilogue(graph, opened.results[0], 0, at));
  if (problem.epilogue.stores.size() != graph.outputs.size())
    return user_error("attention stores only what follows from its result", "a result of the region does not");
  return success();
}

}  // namespace

fuse::Pattern Attention::pattern() {
  fuse::Pattern pattern;
  pattern.name = name();
  pattern.anchor = [](const ir::Graph& graph, ir::NodeId node) { return graph.node(node).op == Op::attention; };
  pattern.grows_up = true;
  pattern.accepts = [](const ir::Graph& body) -> Status {
    RTX_TRY(const auto problem, Attention::problem(body));
    // Rows are read once a group and, of k and v, in each of them: a bias or a rotation costs less where they are produced.
    for (const Operand* operand : {&problem.q, &problem.k, &problem.v})
      for (const auto& e : operand->dag.elements)
        if (e.kind == codegen::Element::Kind::op && e.dtype != ir::DType::boolean && ir::is_floating(e.dtype) && e.op != Op::cast)
          return user_error("attention leaves arithmetic on its operands to their producers", std::string(ir::name(e.op)) + " before q, k or v");
    return success();
  };
  return pattern;
}

Result<Problem> Attention::problem(const ir::Graph& body) {
  RTX_TRY(const ir::NodeId id, only_anchor(body));
  const ir::Node& anchor = body.node(id);
  if (anchor.op != Op::attention) return user_error("attention does not compute " + std::string(ir::name(anchor.op)));
  for (size_t k = 0; k < 3; ++k) RTX_CHECK(require_f32_arithmetic(body, anchor.inputs[k], name()));
  if (anchor.inputs.size() > 3 && anchor.inputs[3] != ir::kNoValue && body.value(anchor.inputs[3]).dtype == ir::DType::f64)
    return user_error("attention does not take a f64 mask", "it computes in f32");
  const auto q = body.extents(anchor.inputs[0]), k = body.extents(anchor.inputs[1]), v = body.extents(anchor.inputs[2]);
  Problem p;
  p.body = body;
  p.batch = q[0], p.query_heads = q[1], p.queries = q[2], p.depth = q[3];
  p.key_heads = k[1], p.keys = k[2], p.width = v[3];
  p.scale = anchor.attributes.real("scale", 1);
  p.softcap = anchor.attributes.real("softcap");
  p.causal = anchor.attributes.integer("causal") != 0;
  p.empty_row_nan = anchor.attributes.integer("empty_row_nan") != 0;
  p.causal_offset = anchor.attributes.integer("causal_offset");
  p.window_left = anchor.attributes.integer("window_left", -1);
  p.window_right = anchor.attributes.integer("window_right", -1);
  if (p.elements() == 0) return p;  // nothing to store
  if (p.query_heads % p.key_heads != 0)
    return user_error("attention shares each key head among equally many query heads",
                      std::to_string(p.query_heads) + " query heads, " + std::to_string(p.key_heads) + " key heads");
  if (p.depth > kWidestRow || p.width > kWidestRow)
    return user_error("attention rows are too wide for a thread's scratch",
                      std::to_string(std::max(p.depth, p.width)) + " elements; at most " + std::to_string(kWidestRow));
  constexpr int64_t far = int64_t{1} << 40;  // positions and offsets are added in 64 bits
  if (p.causal_offset > far || p.causal_offset < -far || p.window_left > far || p.window_right > far)
    return user_error("attention's offset or window is beyond any sequence", "at most 2^40");
  RTX_CHECK(lower_body(p, body, id));
  return p;
}

std::string Attention::key(const Problem& p) {
  std::string out = "attention";
  for (const int64_t n : {p.batch, p.query_heads, p.key_heads, p.queries, p.keys, p.depth, p.width}) out += " " + std::to_string(n);
  out += " scale " + codegen::literal_text(ir::DType::f64, p.scale, 0) + " softcap " + codegen::literal_text(ir::DType::f64, p.softcap, 0);
  out += " causal " + std::to_string(p.causal) + " offset " + std::to_string(p.causal_offset) + " window " + std::to_string(p.window_left) +
         " " + std::to_string(p.window_right) + " empty_nan " + std::to_string(p.empty_row_nan);
  const auto operand = [](const char* what, const codegen::ElementDag& dag, int element) {
    return std::string("\n") + what + " t" + std::to_string(element) + " of " + dag.text();
  };
  out += operand("q", p.q.dag, p.q.element) + operand("k", p.k.dag, p.k.element) + operand("v", p.v.dag, p.v.element);
  out += operand("mask", p.mask, p.masked) + operand("valid", p.valid_length, p.valid) + operand("epilogue", p.epilogue, 0);
  return out;
}

}  // namespace rtx::kernels::attention

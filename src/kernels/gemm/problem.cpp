// From a region's body to the family's problem: the operands as affine views of inputs, the rest as an epilogue.
#include <algorithm>

#include "codegen/lower.h"
#include "kernels/gemm/gemm.h"

namespace rtx::kernels::gemm {
namespace {

using codegen::Index;

struct BatchView {
  std::vector<Index> coordinates;  // of the batch dimensions, from the batch variable
};

bool computes_in_itself(ir::DType dtype) {
  return dtype == ir::DType::f64 || dtype == ir::DType::f32 || dtype == ir::DType::i32 || dtype == ir::DType::i64 ||
         dtype == ir::DType::u32 || dtype == ir::DType::u64;
}

Error not_a_view(const ir::Graph& body, ir::ValueId value, std::string why) {
  return user_error("operand " + body.value(value).name + " is not a plain view of an input", std::move(why));
}

// `coordinates` of `value` in terms of the batch, row and column variables; the view must be affine in row and column.
Result<Operand> operand(const ir::Graph& body, ir::ValueId value, const std::vector<Index>& coordinates, int row_variable,
                        int column_variable) {
  RTX_TRY(auto lowered, codegen::lower_value(body, value, coordinates));
  const auto& element = lowered.dag.elements[static_cast<size_t>(lowered.element)];
  if (element.kind != codegen::Element::Kind::load || element.guard >= 0)
    return not_a_view(body, value, "it is computed element by element, which this family does not do in front of the product");
  const auto& buffer = lowered.dag.buffers[static_cast<size_t>(element.buffer)];
  Operand operand;
  operand.input = buffer.position;
  operand.dtype = buffer.dtype;
  operand.weight = body.value(buffer.value).weight;
  operand.elements = buffer.elements;
  if (!element.offset.affine_in(row_variable, 1, &operand.row_stride) ||
      !element.offset.affine_in(column_variable, 1, &operand.column_stride))
    return not_a_view(body, value, "its rows or columns are not evenly spaced in memory: " + element.offset.text());
  operand.offset = element.offset.substitute({{row_variable, Index(0)}, {column_variable, Index(0)}});
  if (operand.offset.depends_on(row_variable) || operand.offset.depends_on(column_variable))
    return not_a_view(body, value, "its offset depends on rows and columns together");
  for (const auto& other : lowered.dag.elements)
    if (&other != &element && other.kind == codegen::Element::Kind::load)
      return not_a_view(body, value, "its position depends on the values of another tensor");
  return operand;
}

// Batch coordinates of an operand: the output's, with 0 where the operand has extent 1.
std::vector<Index> broadcast(const std::vector<Index>& batch, const std::vector<int64_t>& extents) {
  const size_t own = extents.size() - 2;
  std::vector<Index> out;
  for (size_t i = 0; i < own; ++i) out.push_back(extents[i] == 1 ? Index(0) : batch[batch.size() - own + i]);
  return out;
}

int64_t batch_count(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (size_t i = 0; i + 2 < extents.size(); ++i) count *= extents[i];
  return count;
}

// Which of B's matrices a batch uses: the linear index over B's own batch extents.
Index matrix_of_batch(const std::vector<Index>& b_batch, const std::vector<int64_t>& extents) {
  Index out(0);
  for (size_t i = 0; i < b_batch.size(); ++i) out = out * extents[i] + b_batch[i];
  return out;
}

// What stands in the body for the two factors of columns that take turns: the reshapes behind both slices of [.., n / 16, 2, 8].
constexpr int64_t kTurn = 8;
struct Turns {
  ir::ValueId first = ir::kNoValue, second = ir::kNoValue;
};
std::optional<Turns> turns_of(const ir::Graph& body, int64_t n) {
  if (n % (2 * kTurn) != 0) return std::nullopt;
  const auto readers = body.readers();
  const auto only_reader = [&](ir::ValueId value, ir::Op op) -> const ir::Node* {
    const auto& of_value = readers[size_t(value)];
    return of_value.size() == 1 && body.node(of_value[0]).op == op ? &body.node(of_value[0]) : nullptr;
  };
  for (const auto& apart : body.nodes) {
    if (apart.op != ir::Op::reshape) continue;
    const auto from = body.extents(apart.inputs[0]), to = body.extents(apart.outputs[0]);
    if (to.size() < 3 || from.back() != n || !std::equal(to.end() - 3, to.end(), std::vector<int64_t>{n / (2 * kTurn), 2, kTurn}.begin())) continue;
    Turns out;
    for (const ir::NodeId reader : readers[size_t(apart.outputs[0])]) {
      const ir::Node& slice = body.node(reader);
      const ir::Node* joined = slice.op == ir::Op::slice ? only_reader(slice.outputs[0], ir::Op::reshape) : nullptr;
      if (!joined || body.extents(slice.outputs[0])[to.size() - 2] != 1 || body.extents(joined->outputs[0]).back() != n / 2) return std::nullopt;
      (slice.attributes.integers("starts")[to.size() - 2] == 0 ? out.first : out.second) = joined->outputs[0];
    }
    if (out.first != ir::kNoValue && out.second != ir::kNoValue) return out;
  }
  return std::nullopt;
}

Result<codegen::ElementDag> lower_turns(const ir::Graph& body, ir::ValueId product, const Turns& turns, const std::vector<Index>& rows, int64_t n) {
  codegen::Lowering lowering(body);
  const Index column = Index::variable(Problem::n_variable, n / 2), first = column / kTurn * (2 * kTurn) + column % kTurn;
  const auto at = [&](const Index& last) {
    auto out = rows;
    out.push_back(last);
    return out;
  };
  lowering.define_leaf(product, 0, at(first));
  lowering.define_leaf(product, 1, at(first + kTurn));
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    RTX_TRY(const auto stored, codegen::output_coordinates(body, turns.first, body.outputs[k], at(column)));
    RTX_TRY(const int value, lowering.element(body.outputs[k], stored));
    RTX_CHECK(lowering.store(static_cast<int>(k), stored, value));
  }
  return lowering.take();
}

// Without a batch dimension in B, [batch, m] is one long m, if A's rows are evenly spaced over both.
Result<Problem> bind(const ir::Graph& body, const ir::Node& node, bool join_batch) {
  const auto a_extents = body.extents(node.inputs[0]), b_extents = body.extents(node.inputs[1]);
  const auto out_extents = body.extents(node.outputs[0]);
  const bool trans_a = node.attributes.integer("trans_a") != 0, trans_b = node.attributes.integer("trans_b") != 0;
  const size_t rank = out_extents.size();
  Problem p;
  p.m = out_extents[rank - 2];
  p.n = out_extents[rank - 1];
  p.k = a_extents[a_extents.size() - (trans_a ? 2 : 1)];
  p.batches = batch_count(out_extents);
  p.b_matrices = batch_count(b_extents);

  const ir::DType dtype = body.value(node.inputs[0]).dtype;
  p.arithmetic = dtype == ir::DType::f16 || dtype == ir::DType::bf16 ? ir::DType::f32 : dtype;
  if (!computes_in_itself(p.arithmetic))
    return user_error("matrix product of " + std::string(ir::name(dtype)) + " is not in this family",
                      "it computes f64, f32, f16, bf16 and 32- and 64-bit integers");
  if (p.empty()) return p;

  std::vector<int64_t> batch_extents(out_extents.begin(), out_extents.end() - 2);
  Index m, n = Index::variable(Problem::n_variable, p.n);
  std::vector<Index> batch;
  if (join_batch) {
    const Index rows = Index::variable(Problem::m_variable, p.batches * p.m);
    m = rows % p.m;
    batch = codegen::unravel(rows / p.m, batch_extents);
    p.m *= p.batches;
    p.batches = 1;
  } else {
    m = Index::variable(Problem::m_variable, p.m);
    batch = codegen::unravel(Index::variable(Problem::batch_variable, p.batches), batch_extents);
  }

  if (p.k > 0) {
    const Index k = Index::variable(Problem::k_variable, p.k);
    auto a_at = broadcast(batch, a_extents), b_at = broadcast(batch, b_extents);
    p.b_matrix = matrix_of_batch(b_at, b_extents);
    a_at.push_back(trans_a ? k : m);
    a_at.push_back(trans_a ? m : k);
    b_at.push_back(trans_b ? n : k);
    b_at.push_back(trans_b ? k : n);
    RTX_TRY(p.a, operand(body, node.inputs[0], a_at, Problem::m_variable, Problem::k_variable));
    RTX_TRY(p.b, operand(body, node.inputs[1], b_at, Problem::k_variable, Problem::n_variable));
    if (p.b.offset.depends_on(Problem::m_variable)) return user_error("B depends on the row", "each row would need another B");
  } else {
    p.a.dtype = p.b.dtype = dtype;
  }

  std::vector<Index> at = batch;
  at.push_back(m);
  if (const auto turns = turns_of(body, p.n); turns && p.arithmetic == ir::DType::f32) {
    p.in_turn = true;
    RTX_TRY(p.epilogue, lower_turns(body, node.outputs[0], *turns, at, p.n));
    return p;
  }
  at.push_back(n);
  RTX_TRY(p.epilogue, codegen::lower_epilogue(body, node.outputs[0], 0, at));
  return p;
}

}  // namespace

Result<Problem> Family::problem(const ir::Graph& body) {
  const ir::Node* product = nullptr;
  for (const auto& node : body.nodes) {
    if (node.op != ir::Op::matmul) continue;
    if (product) return user_error("the region holds two matrix products", "one kernel computes one");
    product = &node;
  }
  if (!product) return user_error("the region holds no matrix product");
  const auto a_extents = body.extents(product->inputs[0]), b_extents = body.extents(product->inputs[1]);
  if (a_extents.size() < 2 || b_extents.size() < 2) return user_error("a matrix product needs matrices", "an operand has fewer than two dimensions");
  if (batch_count(b_extents) == 1 && batch_count(a_extents) > 1) {
    auto joined = bind(body, *product, true);
    if (joined.ok()) return joined;
  }
  return bind(body, *product, false);
}

std::string Family::key(const Problem& p) {
  auto matrix = [](const Operand& o) {
    return std::string(ir::name(o.dtype)) + "[" + std::to_string(o.input) + "] at " + o.offset.text() + " strides " +
           std::to_string(o.row_stride) + "," + std::to_string(o.column_stride) + (o.weight ? " weight" : "");
  };
  return "gemm " + std::string(ir::name(p.arithmetic)) + " " + std::to_string(p.batches) + "x" + std::to_string(p.m) + "x" +
         std::to_string(p.n) + "x" + std::to_string(p.k) + "; a " + matrix(p.a) + "; b " + matrix(p.b) + " matrix " + p.b_matrix.text() +
         " of " + std::to_string(p.b_matrices) + (p.in_turn ? "; columns in turn; " : "; ") + p.epilogue.text();
}

}  // namespace rtx::kernels::gemm

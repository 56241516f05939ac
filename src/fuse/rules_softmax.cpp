// Softmax and log-softmax written out:  d = x - max(x);  softmax = exp(d) / sum(exp(d));  log_softmax = d -
// log(sum(exp(d)))
//
// Without the subtraction of the maximum exp overflows where softmax does not: another function, left alone.
#include "fuse/match.h"

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

// The operand of a reduction along one axis that keeps the dimension.
std::optional<ValueId> take_row_reduction(Match& match, ValueId value, Op op, std::optional<int64_t>* axis) {
  const ir::Node* reduce = match.take(value, op);
  if (!reduce || reduce->attributes.integer("keepdims") != 1) return std::nullopt;
  const auto axes = reduce->attributes.integers("axes");
  if (axes.size() != 1 || (*axis && **axis != axes[0])) return std::nullopt;
  *axis = axes[0];
  return reduce->inputs[0];
}

// x of x - max(x).
std::optional<ValueId> take_shift(Match& match, ValueId value, std::optional<int64_t>* axis) {
  const ir::Node* shift = match.take(value, Op::sub);
  auto reduced = shift ? take_row_reduction(match, shift->inputs[1], Op::reduce_max, axis) : std::nullopt;
  if (!reduced || *reduced != shift->inputs[0]) return std::nullopt;
  return reduced;
}

std::optional<Rewriting> row_operator(const Match& match, NodeId root, Op op, ValueId x, int64_t axis) {
  const ValueId out = match.editor.node(root).outputs[0];
  if (!ir::is_floating(match.editor.value(x).dtype)) return std::nullopt;
  return Rewriting{match.covers, {out}, [=](Editor& e) -> std::optional<std::vector<ValueId>> {
                     auto y = e.add(op, {x}, {{{"axis", axis}}});
                     if (!y) return std::nullopt;
                     return std::vector<ValueId>{*y};
                   }};
}

std::optional<Rewriting> softmax(const Editor& editor, NodeId root) {
  const ir::Node& node = editor.node(root);
  for (size_t side = 0; side < 2; ++side) {
    if (node.op == Op::div && side == 1) break;
    Match match(editor);
    match.covers.push_back(root);
    const ValueId numerator = node.inputs[side];
    ValueId total = node.inputs[1 - side];
    if (node.op == Op::mul) {
      const ir::Node* reciprocal = match.take(total, Op::reciprocal);
      if (!reciprocal) continue;
      total = reciprocal->inputs[0];
    }
    std::optional<int64_t> axis;
    auto summed = take_row_reduction(match, total, Op::reduce_sum, &axis);
    if (!summed || *summed != numerator) continue;
    const ir::Node* exponential = match.take(numerator, Op::exp);
    auto x = exponential ? take_shift(match, exponential->inputs[0], &axis) : std::nullopt;
    if (x) return row_operator(match, root, Op::softmax, *x, *axis);
  }
  return std::nullopt;
}

std::optional<Rewriting> log_softmax(const Editor& editor, NodeId root) {
  Match match(editor);
  match.covers.push_back(root);
  const ir::Node& node = editor.node(root);
  std::optional<int64_t> axis;
  const ir::Node* log = match.take(node.inputs[1], Op::log);
  auto summed = log ? take_row_reduction(match, log->inputs[0], Op::reduce_sum, &axis) : std::nullopt;
  const ir::Node* exponential = summed ? match.take(*summed, Op::exp) : nullptr;
  if (!exponential || exponential->inputs[0] != node.inputs[0]) return std::nullopt;
  auto x = take_shift(match, node.inputs[0], &axis);
  return x ? row_operator(match, root, Op::log_softmax, *x, *axis) : std::nullopt;
}

}  // namespace

std::vector<Rule> softmax_rules() {
  return {
      {"softmax: exp(x - max) / sum", {Op::div, Op::mul}, softmax},
      {"log_softmax: x - max - log(sum(exp(x - max)))", {Op::sub}, log_softmax},
  };
}

}  // namespace rtx::fuse

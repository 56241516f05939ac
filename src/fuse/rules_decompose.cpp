// Attention written out, for the unfused baseline: products, scale, mask and softmax, each a node. Grouped heads are rows of one product
// (a reshape, nothing is copied), and the causal triangle is a constant that a select reads, as in a model that spells it so.
#include <limits>

#include "fuse/common.h"
#include "fuse/match.h"

namespace rtx::fuse {
namespace {

using ir::Op;
using ir::ValueId;

ir::HostTensor triangle(int64_t queries, int64_t keys, int64_t offset) {
  ir::HostTensor out(ir::DType::boolean, {queries, keys});
  auto* bytes = reinterpret_cast<uint8_t*>(out.mutable_bytes());
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) bytes[i * keys + j] = j <= i + offset;
  return out;
}

std::optional<ValueId> select(Editor& e, ValueId keep, ValueId scores) {
  const auto dtype = e.value(scores).dtype;
  const ValueId nothing = e.add_constant(ir::HostTensor::scalar(dtype, -std::numeric_limits<double>::infinity()));
  return e.add(Op::where, {keep, scores, nothing});
}

std::optional<std::vector<ValueId>> written_out(Editor& e, const ir::Node& node) {
  const auto q = e.extents(node.inputs[0]), k = e.extents(node.inputs[1]), v = e.extents(node.inputs[2]);
  const int64_t group_rows = k[1] == 0 ? 0 : q[1] / k[1] * q[2];
  const auto dtype = e.value(node.inputs[0]).dtype;
  auto rows = e.as_shape(node.inputs[0], {q[0], k[1], group_rows, q[3]});
  auto scores = rows ? e.add(Op::matmul, {*rows, node.inputs[1]}, {{{"trans_a", int64_t{0}}, {"trans_b", int64_t{1}}}}) : std::nullopt;
  if (scores) scores = e.as_shape(*scores, {q[0], q[1], q[2], k[2]});
  if (scores) scores = e.add(Op::mul, {*scores, e.add_constant(ir::HostTensor::scalar(dtype, node.attributes.real("scale")))});
  if (scores && node.inputs.size() > 3 && node.inputs[3] != ir::kNoValue)
    scores = e.value(node.inputs[3]).dtype == ir::DType::boolean ? select(e, node.inputs[3], *scores) : e.add(Op::add, {*scores, node.inputs[3]});
  if (scores && node.attributes.integer("causal") != 0) scores = select(e, e.add_constant(triangle(q[2], k[2], node.attributes.integer("causal_offset"))), *scores);
  auto weights = scores ? e.add(Op::softmax, {*scores}, {{{"axis", int64_t{3}}}}) : std::nullopt;
  if (weights) weights = e.as_shape(*weights, {q[0], k[1], group_rows, k[2]});
  auto out = weights ? e.add(Op::matmul, {*weights, node.inputs[2]}, {{{"trans_a", int64_t{0}}, {"trans_b", int64_t{0}}}}) : std::nullopt;
  if (out) out = e.as_shape(*out, {q[0], q[1], q[2], v[3]});
  if (!out) return std::nullopt;
  return std::vector<ValueId>{*out};
}

std::optional<Rewriting> decompose(const Editor& editor, ir::NodeId root) {
  const ir::Node node = editor.node(root);
  const auto& attributes = node.attributes;
  // A lower number of keys than a query sees would make empty rows, whose softmax is another value than attention's.
  const bool plain = node.outputs.size() == 1 && (node.inputs.size() < 5 || node.inputs[4] == ir::kNoValue) && attributes.integer("window_left", -1) < 0 &&
                     attributes.integer("window_right", -1) < 0 && attributes.real("softcap") == 0 && attributes.integer("causal_offset") >= 0;
  if (!plain) return std::nullopt;
  return Rewriting{{root}, {node.outputs[0]}, [node](Editor& e) { return written_out(e, node); }};
}

}  // namespace

std::vector<Rule> decompose_rules() { return {{"attention written out", {Op::attention}, decompose}}; }

}  // namespace rtx::fuse

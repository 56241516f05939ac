// Transposes around a matmul become its trans_a and trans_b.
#include <numeric>

#include "fuse/match.h"

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

std::vector<int64_t> last_two_swapped(std::vector<int64_t> perm) {
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return perm;
}

bool is_identity(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return true;
}

// transpose, perhaps with a cast behind it, that moves the source's last dimension to the place before the
// last:
//   perm 0 1 3 2  -> read as it lies, transposed        perm 0 2 3 1  -> perm 0 2 1 3, transposed: rows stay
//   contiguous
std::optional<Rewriting> transpose_into(const Editor& editor, NodeId root, size_t side) {
  const ir::Node& matmul = editor.node(root);
  Match match(editor);
  match.covers.push_back(root);
  ValueId operand = matmul.inputs[side];
  std::optional<ir::DType> cast_to;
  if (match.take(operand, Op::cast)) {
    cast_to = editor.value(operand).dtype;
    operand = editor.node(match.covers.back()).inputs[0];
  }
  const ir::Node* transpose = match.take(operand, Op::transpose);
  if (!transpose) return std::nullopt;
  const auto perm = transpose->attributes.integers("perm");
  const auto rank = static_cast<int64_t>(perm.size());
  if (rank < 2 || perm[static_cast<size_t>(rank - 2)] != rank - 1) return std::nullopt;
  const ValueId x = transpose->inputs[0];
  const auto rest = last_two_swapped(perm);
  auto inputs = matmul.inputs;
  ir::Attributes attributes = matmul.attributes;
  const char* flag = side == 0 ? "trans_a" : "trans_b";
  attributes.items[flag] = int64_t{1} - attributes.integer(flag);
  return Rewriting{
      match.covers, {matmul.outputs[0]}, [=](Editor& e) mutable -> std::optional<std::vector<ValueId>> {
        std::optional<ValueId> source = cast_to ? e.as_dtype(x, *cast_to) : x;
        if (source && !is_identity(rest)) source = e.add(Op::transpose, {*source}, {{{"perm", rest}}});
        if (!source) return std::nullopt;
        inputs[side] = *source;
        auto fresh = e.add(Op::matmul, inputs, attributes);
        if (!fresh) return std::nullopt;
        return std::vector<ValueId>{*fresh};
      }};
}

// (A B)^T = B^T A^T
std::optional<Rewriting> transpose_of_matmul(const Editor& editor, NodeId root) {
  Match match(editor);
  match.covers.push_back(root);
  const ir::Node& transpose = editor.node(root);
  const auto perm = transpose.attributes.integers("perm");
  if (perm.size() < 2 || !is_identity(last_two_swapped(perm))) return std::nullopt;
  const ir::Node* matmul = match.take(transpose.inputs[0], Op::matmul);
  if (!matmul) return std::nullopt;
  const ir::Attributes flags{{{"trans_a", int64_t{1} - matmul->attributes.integer("trans_b")},
                              {"trans_b", int64_t{1} - matmul->attributes.integer("trans_a")}}};
  const std::vector<ValueId> swapped{matmul->inputs[1], matmul->inputs[0]};
  return Rewriting{
      match.covers, {transpose.outputs[0]}, [=](Editor& e) -> std::optional<std::vector<ValueId>> {
        auto fresh = e.add(Op::matmul, swapped, flags);
        if (!fresh) return std::nullopt;
        return std::vector<ValueId>{*fresh};
      }};
}

}  // namespace

std::vector<Rule> matmul_rules() {
  return {
      {"matmul: transposed a",
       {Op::matmul},
       [](const Editor& e, NodeId n) { return transpose_into(e, n, 0); }},
      {"matmul: transposed b",
       {Op::matmul},
       [](const Editor& e, NodeId n) { return transpose_into(e, n, 1); }},
      {"matmul: transposed result", {Op::transpose}, transpose_of_matmul},
  };
}

}  // namespace rtx::fuse

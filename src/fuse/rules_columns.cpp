// Weights of several products in one. They come last, when composite operators are known:
//
//   q = x Wq, k = x Wk, v = x Wv in front of an attention    one product [Wq Wk Wv], of which they are slices
//   act(x Wg) * (x Wu), or halves of one product             one product whose columns take turns, 8 of Wg and 8 of Wu: both factors of a
//                                                            result are then in one thread, and the gemm family computes it (kernels/gemm)
//   rotary of neighbouring heads of one tensor, twice        one rotary of all these heads
#include <algorithm>

#include "fuse/columns.h"

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

constexpr int64_t kTurn = 8;  // columns of one factor before those of the other

// Only moved on its way to rotary, attention or a cache: as a slice it is as good as in a tensor of its own.
bool is_moved_to_attention(const Editor& editor, ValueId value, int depth = 0) {
  constexpr int kLongestWay = 6;
  if (editor.is_output(value) || editor.readers(value).empty() || depth > kLongestWay) return false;
  return std::all_of(editor.readers(value).begin(), editor.readers(value).end(), [&](NodeId reader) {
    const ir::Node& node = editor.node(reader);
    if (node.op == Op::attention || node.op == Op::rotary) return true;
    if (node.op == Op::tensor_scatter) return node.inputs[1] == value && node.inputs[0] != value;
    return (node.op == Op::reshape || node.op == Op::transpose) && is_moved_to_attention(editor, node.outputs[0], depth + 1);
  });
}

// The value that stands for a whole product: its sum with a bias where there is one.
ValueId whole_product(const Editor& editor, NodeId product) {
  const ValueId value = editor.node(product).outputs[0];
  if (editor.readers(value).size() != 1 || editor.is_output(value)) return value;
  const ir::Node& reader = editor.node(editor.readers(value)[0]);
  if (reader.op != Op::add) return value;
  const auto columns = columns_of(editor, reader.outputs[0]);
  return columns && columns->covers.size() == 2 ? reader.outputs[0] : value;
}

std::optional<Rewriting> products_side_by_side(const Editor& editor, NodeId root) {
  const ValueId x = editor.node(root).inputs[0];
  const auto own = columns_of(editor, whole_product(editor, root));
  if (!own) return std::nullopt;
  std::vector<Columns> parts;
  Rewriting out;
  for (const NodeId reader : editor.readers(x)) {
    if (editor.node(reader).op != Op::matmul || editor.node(reader).inputs[0] != x) continue;
    const ValueId value = whole_product(editor, reader);
    const auto columns = columns_of(editor, value);
    if (!columns || !is_moved_to_attention(editor, value) || !go_together(editor, *own, *columns)) continue;
    if (std::find(out.replaces.begin(), out.replaces.end(), value) != out.replaces.end()) continue;
    parts.push_back(*columns);
    out.covers.insert(out.covers.end(), columns->covers.begin(), columns->covers.end());
    out.replaces.push_back(value);
  }
  if (parts.size() < 2 || parts[0].covers.back() != root) return std::nullopt;
  out.build = [parts](Editor& e) -> std::optional<std::vector<ValueId>> {
    std::vector<Source> order;
    for (size_t part = 0; part < parts.size(); ++part)
      for (int64_t column = 0; column < parts[part].count; ++column) order.push_back({part, column});
    const auto product = product_of_columns(e, parts, order);
    if (!product) return std::nullopt;
    std::vector<ValueId> fresh;
    int64_t first = 0;
    for (const Columns& part : parts) {
      const auto slice = slice_columns(e, *product, first, part.count);
      if (!slice) return std::nullopt;
      fresh.push_back(*slice);
      first += part.count;
    }
    return fresh;
  };
  return out;
}

bool is_activation(Op op) {
  switch (op) {
    case Op::silu:
    case Op::gelu:
    case Op::sigmoid:
    case Op::relu:
    case Op::tanh: return true;
    default: return false;
  }
}

// Columns of a product with one reader.
std::optional<Columns> factor(const Editor& editor, ValueId value) {
  if (editor.is_output(value) || editor.readers(value).size() != 1) return std::nullopt;
  return columns_of(editor, value);
}

// Halves of one product cover it once, and all of it; parts of two have each their own.
bool cover_their_products(const Editor& editor, const Columns& a, const Columns& b) {
  const auto width = [&](const Columns& part) { return editor.extents(part.weight)[part.attributes.integer("trans_b") != 0 ? 0 : 1]; };
  if (a.weight != b.weight) return a.first == 0 && b.first == 0 && a.count == width(a) && b.count == width(b);
  const auto of_product = editor.value(editor.node(a.covers[1]).outputs[0]);
  return std::min(a.first, b.first) == 0 && std::max(a.first, b.first) == a.count && 2 * a.count == width(a) && !of_product.constant &&
         editor.readers(editor.node(a.covers[0]).inputs[0]).size() == 2 && !editor.is_output(editor.node(a.covers[0]).inputs[0]);
}

std::optional<Rewriting> columns_in_turn(const Editor& editor, NodeId root) {
  const ir::Node& product = editor.node(root);
  for (size_t side = 0; side < 2; ++side) {
    const ValueId activated = product.inputs[side];
    const NodeId activation = editor.value(activated).producer;
    if (activation == ir::kNoNode || !is_activation(editor.node(activation).op) || editor.readers(activated).size() != 1 || editor.is_output(activated)) continue;
    const ValueId first = editor.node(activation).inputs[0], second = product.inputs[1 - side];
    const auto gate = factor(editor, first), up = factor(editor, second);
    if (!gate || !up || gate->count != up->count || gate->count % kTurn != 0 || editor.extents(first) != editor.extents(second) || !go_together(editor, *gate, *up) ||
        !cover_their_products(editor, *gate, *up))
      continue;
    Rewriting out;
    for (const Columns* part : {&*gate, &*up})
      for (const NodeId node : part->covers)
        if (std::find(out.covers.begin(), out.covers.end(), node) == out.covers.end()) out.covers.push_back(node);
    out.replaces = {first, second};
    const auto extents = editor.extents(first);
    const ir::DType dtype = editor.value(first).dtype;
    out.build = [parts = std::vector<Columns>{*gate, *up}, extents, dtype](Editor& e) -> std::optional<std::vector<ValueId>> {
      const int64_t columns = extents.back();
      std::vector<Source> order;
      for (int64_t first_of_turn = 0; first_of_turn < columns; first_of_turn += kTurn)
        for (size_t part = 0; part < 2; ++part)
          for (int64_t c = 0; c < kTurn; ++c) order.push_back({part, first_of_turn + c});
      const auto both = product_of_columns(e, parts, order);
      if (!both) return std::nullopt;
      auto turns = std::vector<int64_t>(extents.begin(), extents.end() - 1);
      turns.insert(turns.end(), {columns / kTurn, 2, kTurn});
      const auto apart = e.as_shape(*both, turns);
      if (!apart) return std::nullopt;
      std::vector<ValueId> fresh;
      for (int64_t part = 0; part < 2; ++part) {
        std::vector<int64_t> starts(turns.size(), 0), steps(turns.size(), 1);
        auto one = turns;
        starts[turns.size() - 2] = part;
        one[turns.size() - 2] = 1;
        const auto slice = e.add_as(Op::slice, {*apart}, dtype, one, {{{"starts", starts}, {"steps", steps}}});
        const auto whole = slice ? e.as_shape(*slice, extents) : std::nullopt;
        if (!whole) return std::nullopt;
        fresh.push_back(*whole);
      }
      return fresh;
    };
    return out;
  }
  return std::nullopt;
}

// transpose(reshape(columns of y): [B,S,H,D], perm 0 2 1 3): heads of y.
struct Heads {
  ValueId y = ir::kNoValue;
  int64_t first = 0, heads = 0, size = 0;
  std::vector<NodeId> covers;
};
std::optional<Heads> heads_of(const Editor& editor, ValueId value) {
  Match match(editor);
  const ir::Node* transpose = match.take(value, Op::transpose);
  if (transpose && transpose->attributes.integers("perm") != std::vector<int64_t>{0, 2, 1, 3})
    return std::nullopt;
  const ir::Node* reshape = match.take(transpose ? transpose->inputs[0] : value, Op::reshape);
  const auto split = editor.extents(value);  // [B,H,S,D]; one row is in its place without a transpose
  if (!reshape || split.size() != 4 || (!transpose && split[2] != 1)) return std::nullopt;
  const auto joined = editor.extents(reshape->inputs[0]);
  if (joined != std::vector<int64_t>{split[0], split[2], split[1] * split[3]}) return std::nullopt;
  Heads out;
  out.heads = split[1];
  out.size = split[3];
  const auto y = range_of_columns(editor, reshape->inputs[0], &out.first);
  if (!y || !match.take(reshape->inputs[0], Op::slice)) return std::nullopt;
  out.y = *y;
  out.covers = match.covers;
  return out;
}

std::optional<Rewriting> rotary_of_neighbours(const Editor& editor, NodeId root) {
  const ir::Node& left = editor.node(root);
  const auto a = heads_of(editor, left.inputs[0]);
  if (!a) return std::nullopt;
  for (const NodeId other : editor.readers(left.inputs[1])) {
    const ir::Node& right = editor.node(other);
    if (other == root || right.op != Op::rotary || right.inputs[1] != left.inputs[1] || right.inputs[2] != left.inputs[2] || right.attributes != left.attributes) continue;
    const auto b = heads_of(editor, right.inputs[0]);
    if (!b || b->y != a->y || b->size != a->size || b->first != a->first + a->heads * a->size) continue;
    Rewriting out;
    out.covers = a->covers;
    out.covers.insert(out.covers.end(), b->covers.begin(), b->covers.end());
    out.covers.insert(out.covers.end(), {root, other});
    out.replaces = {left.outputs[0], right.outputs[0]};
    const auto tables = std::vector<ValueId>{left.inputs[1], left.inputs[2]};
    const auto attributes = left.attributes;
    out.build = [=, a = *a, b = *b](Editor& e) -> std::optional<std::vector<ValueId>> {
      const auto from = e.extents(a.y);
      const int64_t heads = a.heads + b.heads;
      const auto columns = slice_columns(e, a.y, a.first, heads * a.size);
      const auto rows = columns ? e.as_shape(*columns, {from[0], from[1], heads, a.size}) : std::nullopt;
      const auto by_head = rows ? e.add(Op::transpose, {*rows}, {{{"perm", std::vector<int64_t>{0, 2, 1, 3}}}}) : std::nullopt;
      const auto turned = by_head ? e.add(Op::rotary, {*by_head, tables[0], tables[1]}, attributes) : std::nullopt;
      if (!turned) return std::nullopt;
      std::vector<ValueId> fresh;
      for (const auto& [first, count] : {std::pair(int64_t{0}, a.heads), std::pair(a.heads, b.heads)}) {
        const auto slice = e.add_as(Op::slice, {*turned}, e.value(*turned).dtype, {from[0], count, from[1], a.size},
                                    {{{"starts", std::vector<int64_t>{0, first, 0, 0}}, {"steps", std::vector<int64_t>{1, 1, 1, 1}}}});
        if (!slice) return std::nullopt;
        fresh.push_back(*slice);
      }
      return fresh;
    };
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Rule> column_rules() {
  return {
      {"columns: products of one operand side by side", {Op::matmul}, products_side_by_side},
      {"columns: a product and its gate in turn", {Op::mul}, columns_in_turn},
      {"columns: rotary of neighbouring heads at once", {Op::rotary}, rotary_of_neighbours},
  };
}

}  // namespace rtx::fuse

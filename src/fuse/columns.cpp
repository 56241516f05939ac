#include "fuse/columns.h"

#include <algorithm>
#include <cstring>

namespace rtx::fuse {

namespace {

using ir::HostTensor;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

const ir::Node* producer(const Editor& editor, ValueId value, Op op) {
  const NodeId node = editor.value(value).producer;
  return node != ir::kNoNode && editor.alive(node) && editor.node(node).op == op ? &editor.node(node) : nullptr;
}

bool is_own_constant(const Editor& editor, ValueId value) {
  return editor.value(value).constant.has_value() && editor.readers(value).size() == 1 && !editor.is_output(value);
}

// A tensor of [outer, columns, inner] whose columns come from others of that form.
HostTensor gathered(const std::vector<const HostTensor*>& tensors, const std::vector<int64_t>& firsts, const std::vector<Source>& order, size_t axis) {
  auto extents = tensors.front()->extents();
  extents[axis] = static_cast<int64_t>(order.size());
  HostTensor out(tensors.front()->dtype(), extents);
  int64_t outer = 1, inner = ir::bytes_of(out.dtype());
  for (size_t d = 0; d < axis; ++d) outer *= extents[d];
  for (size_t d = axis + 1; d < extents.size(); ++d) inner *= extents[d];
  std::byte* to = out.mutable_bytes();
  for (int64_t o = 0; o < outer; ++o)
    for (size_t c = 0; c < order.size();) {
      // Runs of neighbours move at once.
      size_t end = c + 1;
      while (end < order.size() && order[end].part == order[c].part && order[end].column == order[c].column + static_cast<int64_t>(end - c)) ++end;
      const HostTensor& from = *tensors[order[c].part];
      const int64_t at = (o * from.extents()[axis] + firsts[order[c].part] + order[c].column) * inner;
      const auto bytes = static_cast<size_t>(inner) * (end - c);
      std::memcpy(to, from.bytes() + at, bytes);
      to += bytes;
      c = end;
    }
  return out;
}

size_t column_axis(const Columns& part) { return part.attributes.integer("trans_b") != 0 ? 0 : 1; }

}  // namespace

std::optional<ValueId> range_of_columns(const Editor& editor, ValueId value, int64_t* first) {
  const ir::Node* slice = producer(editor, value, Op::slice);
  if (!slice) return std::nullopt;
  const auto starts = slice->attributes.integers("starts"), steps = slice->attributes.integers("steps");
  const auto from = editor.extents(slice->inputs[0]), to = editor.extents(value);
  if (from.empty()) return std::nullopt;
  for (size_t d = 0; d + 1 < from.size(); ++d)
    if (starts[d] != 0 || from[d] != to[d]) return std::nullopt;
  if (std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; })) return std::nullopt;
  *first = starts.back();
  return slice->inputs[0];
}

std::optional<Columns> columns_of(const Editor& editor, ValueId value) {
  Columns out;
  const auto extents = editor.extents(value);
  if (extents.empty()) return std::nullopt;
  out.count = extents.back();
  ValueId at = value;
  if (const auto source = range_of_columns(editor, at, &out.first)) {
    out.covers.push_back(editor.value(at).producer);
    at = *source;
  }
  if (const ir::Node* sum = producer(editor, at, Op::add)) {
    const int64_t width = editor.extents(at).back();
    for (size_t side = 0; side < 2; ++side) {
      const auto own = editor.extents(sum->inputs[side]);
      if (!is_own_constant(editor, sum->inputs[side]) || own != std::vector<int64_t>{width}) continue;
      out.bias = sum->inputs[side];
      out.covers.push_back(editor.value(at).producer);
      at = sum->inputs[1 - side];
      break;
    }
    if (out.bias == ir::kNoValue) return std::nullopt;
  }
  const ir::Node* product = producer(editor, at, Op::matmul);
  if (!product || !is_own_constant(editor, product->inputs[1]) || editor.extents(product->inputs[1]).size() != 2) return std::nullopt;
  out.covers.push_back(editor.value(at).producer);
  out.x = product->inputs[0];
  out.weight = product->inputs[1];
  out.attributes = product->attributes;
  return out;
}

bool go_together(const Editor& editor, const Columns& a, const Columns& b) {
  const auto type = [&](ValueId v) { return editor.value(v).dtype; };
  if (a.x != b.x || a.attributes != b.attributes || type(a.weight) != type(b.weight) || (a.bias == ir::kNoValue) != (b.bias == ir::kNoValue)) return false;
  if (a.bias != ir::kNoValue && type(a.bias) != type(b.bias)) return false;
  const size_t depth = 1 - column_axis(a);
  return editor.extents(a.weight)[depth] == editor.extents(b.weight)[depth];
}

std::optional<ValueId> product_of_columns(Editor& editor, const std::vector<Columns>& parts, const std::vector<Source>& order) {
  const auto gather = [&](ValueId Columns::*which, size_t axis) {
    std::vector<const HostTensor*> tensors;
    std::vector<int64_t> firsts;
    for (const Columns& part : parts) {
      tensors.push_back(&*editor.value(part.*which).constant);
      firsts.push_back(part.first);
    }
    return editor.add_constant(gathered(tensors, firsts, order, axis));
  };
  auto product = editor.add(Op::matmul, {parts[0].x, gather(&Columns::weight, column_axis(parts[0]))}, parts[0].attributes);
  if (!product || parts[0].bias == ir::kNoValue) return product;
  return editor.add(Op::add, {*product, gather(&Columns::bias, 0)});
}

std::optional<ValueId> slice_columns(Editor& editor, ValueId value, int64_t first, int64_t count) {
  auto extents = editor.extents(value);
  std::vector<int64_t> starts(extents.size(), 0), steps(extents.size(), 1);
  starts.back() = first;
  extents.back() = count;
  return editor.add_as(Op::slice, {value}, editor.value(value).dtype, extents, {{{"starts", starts}, {"steps", steps}}});
}

}  // namespace rtx::fuse

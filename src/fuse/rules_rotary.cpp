// Rotary position embedding written out. x1, x2 are the halves of the rotated columns, or their even and odd
// ones (interleaved):
//
//   concat(x1 cos - x2 sin, x1 sin + x2 cos [, columns that pass through])     tables of half width
//   x cos + concat(-x2, x1) sin                                                tables of full width whose
//   halves are equal
//
// The operator wants [B,H,S,D] and tables [B or 1, S, half]. A chain on [B,S,H,D] is taken where a transpose
// stands at one of its ends, since it meets the one that the operator needs.
#include <cstring>

#include "fuse/match.h"

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

struct RotaryChain {
  ValueId x = ir::kNoValue, cos = ir::kNoValue, sin = ir::kNoValue;
  int64_t half = 0;
  bool interleaved = false, full_tables = false;
};

int64_t last_extent(const Editor& editor, ValueId value) {
  const auto extents = editor.extents(value);
  return extents.empty() ? 1 : extents.back();
}

bool is_last_axis(const Editor& editor, const ir::Node& concat) {
  return concat.attributes.integer("axis") + 1 ==
         static_cast<int64_t>(editor.extents(concat.outputs[0]).size());
}

// The source of columns start, start + step, ... (count of them) of all rows.
std::optional<ValueId> take_columns(Match& match, ValueId value, int64_t start, int64_t step, int64_t count) {
  const ir::Node* slice = match.peek(value, Op::slice);
  if (!slice || last_extent(match.editor, value) != count) return std::nullopt;
  const auto starts = slice->attributes.integers("starts"), steps = slice->attributes.integers("steps");
  const auto from = match.editor.extents(slice->inputs[0]), to = match.editor.extents(value);
  for (size_t i = 0; i + 1 < from.size(); ++i)
    if (starts[i] != 0 || steps[i] != 1 || from[i] != to[i]) return std::nullopt;
  if (starts.back() != start || (count > 1 && steps.back() != step)) return std::nullopt;
  match.take(value, Op::slice);
  return slice->inputs[0];
}

struct Factors {
  ValueId table, columns;
};

// A product of a table and columns of x, whichever way round.
std::optional<Factors> take_factors(Match& match, ValueId value, int64_t start, int64_t step, int64_t half,
                                    ValueId* x) {
  const ir::Node* product = match.take(value, Op::mul);
  if (!product) return std::nullopt;
  for (size_t side = 0; side < 2; ++side) {
    auto source =
        match.attempt([&]() { return take_columns(match, product->inputs[side], start, step, half); });
    if (!source || (*x != ir::kNoValue && *x != *source)) continue;
    *x = *source;
    return Factors{product->inputs[1 - side], product->inputs[side]};
  }
  return std::nullopt;
}

// real = x1 cos - x2 sin, imaginary = x1 sin + x2 cos
bool take_rotation(Match& match, ValueId real, ValueId imaginary, bool interleaved, RotaryChain* out) {
  const int64_t half = last_extent(match.editor, real);
  const int64_t second = interleaved ? 1 : half, step = interleaved ? 2 : 1;
  const ir::Node* difference = match.take(real, Op::sub);
  const ir::Node* sum = match.take(imaginary, Op::add);
  if (!difference || !sum) return false;
  ValueId x = ir::kNoValue;
  auto a = take_factors(match, difference->inputs[0], 0, step, half, &x);
  auto b = a ? take_factors(match, difference->inputs[1], second, step, half, &x) : std::nullopt;
  if (!b) return false;
  for (size_t side = 0; side < 2; ++side) {
    auto taken = match.attempt([&]() -> bool {
      auto c = take_factors(match, sum->inputs[side], 0, step, half, &x);
      auto d = c ? take_factors(match, sum->inputs[1 - side], second, step, half, &x) : std::nullopt;
      return d && c->table == b->table && d->table == a->table;
    });
    if (!taken) continue;
    *out = {x, a->table, b->table, half, interleaved, false};
    return true;
  }
  return false;
}

// [.., half] -> [.., half, 1]
ValueId take_unsqueezed(Match& match, ValueId value) {
  const ir::Node* reshape = match.peek(value, Op::reshape);
  if (!reshape) return ir::kNoValue;
  auto wanted = match.editor.extents(reshape->inputs[0]);
  wanted.push_back(1);
  if (wanted != match.editor.extents(value)) return ir::kNoValue;
  match.take(value, Op::reshape);
  return reshape->inputs[0];
}

// reshape(concat(real[.., 1], imaginary[.., 1])): even and odd columns put together again.
bool take_interleaved(Match& match, ValueId value, RotaryChain* out) {
  const ir::Node* joined = match.take(value, Op::reshape);
  const ir::Node* concat = joined ? match.take(joined->inputs[0], Op::concat) : nullptr;
  if (!concat || concat->inputs.size() != 2 || !is_last_axis(match.editor, *concat)) return false;
  const ValueId real = take_unsqueezed(match, concat->inputs[0]),
                imaginary = take_unsqueezed(match, concat->inputs[1]);
  if (real == ir::kNoValue || imaginary == ir::kNoValue) return false;
  auto wanted = match.editor.extents(real);
  wanted.back() *= 2;
  return match.editor.extents(value) == wanted && take_rotation(match, real, imaginary, true, out);
}

// Columns behind the rotated ones, as they were.
bool take_rest(Match& match, ValueId value, const RotaryChain& chain) {
  const int64_t rotated = 2 * chain.half;
  auto source = take_columns(match, value, rotated, 1, last_extent(match.editor, chain.x) - rotated);
  return source && *source == chain.x;
}

bool take_half_tables(Match& match, NodeId root, RotaryChain* out) {
  const Editor& editor = match.editor;
  const ir::Node& node = editor.node(root);
  if (node.op == Op::reshape)
    return take_interleaved(match, node.outputs[0], out) && last_extent(editor, out->x) == 2 * out->half;
  match.covers.push_back(root);
  if (!is_last_axis(editor, node)) return false;
  const size_t parts = node.inputs.size();
  if (parts == 2 &&
      match.attempt([&]() { return take_rotation(match, node.inputs[0], node.inputs[1], false, out); }))
    return last_extent(editor, out->x) == 2 * out->half;
  if (parts == 3)
    return take_rotation(match, node.inputs[0], node.inputs[1], false, out) &&
           take_rest(match, node.inputs[2], *out);
  return parts == 2 && take_interleaved(match, node.inputs[0], out) && take_rest(match, node.inputs[1], *out);
}

// x cos + concat(-x2, x1) sin
bool take_full_tables(Match& match, NodeId root, RotaryChain* out) {
  match.covers.push_back(root);
  const Editor& editor = match.editor;
  const ir::Node& sum = editor.node(root);
  for (size_t side = 0; side < 2; ++side) {
    const bool taken = match.attempt([&]() -> bool {
      const ir::Node* turned = match.take(sum.inputs[side], Op::mul);
      const ir::Node* straight = match.take(sum.inputs[1 - side], Op::mul);
      if (!turned || !straight) return false;
      for (size_t t = 0; t < 2; ++t) {
        const ir::Node* concat = match.peek(turned->inputs[t], Op::concat);
        if (!concat || concat->inputs.size() != 2 || !is_last_axis(editor, *concat)) continue;
        match.take(turned->inputs[t], Op::concat);
        const ir::Node* negated = match.take(concat->inputs[0], Op::neg);
        const int64_t half = last_extent(editor, concat->inputs[0]);
        auto first = negated ? take_columns(match, concat->inputs[1], 0, 1, half) : std::nullopt;
        auto second = first ? take_columns(match, negated->inputs[0], half, 1, half) : std::nullopt;
        if (!second || *first != *second || last_extent(editor, *first) != 2 * half) return false;
        for (size_t s = 0; s < 2; ++s)
          if (straight->inputs[s] == *first) {
            *out = {*first, straight->inputs[1 - s], turned->inputs[1 - t], half, false, true};
            return true;
          }
        return false;
      }
      return false;
    });
    if (taken) return true;
  }
  return false;
}

// The first half of the columns of a table whose second half is the same; nothing when that is not known.
std::optional<ValueId> first_half(Editor& editor, ValueId table) {
  const auto extents = editor.extents(table);
  if (extents.empty() || extents.back() % 2 != 0) return std::nullopt;
  auto narrow = extents;
  narrow.back() /= 2;
  if (const auto& constant = editor.value(table).constant) {
    ir::HostTensor out(constant->dtype(), narrow);
    const size_t bytes = static_cast<size_t>(narrow.back() * ir::bytes_of(constant->dtype()));
    const int64_t rows = bytes == 0 ? 0 : out.byte_size() / static_cast<int64_t>(bytes);
    std::byte* to = out.mutable_bytes();
    for (int64_t row = 0; row < rows; ++row) {
      const std::byte* from = constant->bytes() + static_cast<size_t>(row) * 2 * bytes;
      if (std::memcmp(from, from + bytes, bytes) != 0) return std::nullopt;
      std::memcpy(to + static_cast<size_t>(row) * bytes, from, bytes);
    }
    return editor.add_constant(std::move(out));
  }
  const NodeId producer = editor.value(table).producer;
  if (producer == ir::kNoNode) return std::nullopt;
  const ir::Node node = editor.node(producer);
  const ir::DType dtype = editor.value(table).dtype;
  switch (node.op) {
    case Op::concat:
      if (node.inputs.size() != 2 || node.inputs[0] != node.inputs[1] || !is_last_axis(editor, node))
        return std::nullopt;
      return node.inputs[0];
    case Op::cast: {
      auto inner = first_half(editor, node.inputs[0]);
      return inner ? editor.as_dtype(*inner, dtype) : std::nullopt;
    }
    case Op::reshape: {
      if (last_extent(editor, node.inputs[0]) != extents.back()) return std::nullopt;
      auto inner = first_half(editor, node.inputs[0]);
      return inner ? editor.as_shape(*inner, narrow) : std::nullopt;
    }
    case Op::gather: {
      const auto rank = static_cast<int64_t>(editor.extents(node.inputs[0]).size());
      if (node.attributes.integer("axis") + 1 >= rank) return std::nullopt;
      auto inner = first_half(editor, node.inputs[0]);
      return inner ? editor.add(Op::gather, {*inner, node.inputs[1]}, node.attributes) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

enum class HeadPlace { before_rows, behind_rows };

// Where the heads stand, from the table that is broadcast over them.
std::optional<HeadPlace> head_place(const std::vector<int64_t>& x, std::vector<int64_t> table) {
  if (x.size() != 4 || table.size() > 4) return std::nullopt;
  table.insert(table.begin(), 4 - table.size(), 1);
  if (table[0] != 1 && table[0] != x[0]) return std::nullopt;
  if (table[1] == 1 && table[2] == x[2]) return HeadPlace::before_rows;
  if (table[2] == 1 && table[1] == x[1]) return HeadPlace::behind_rows;
  return std::nullopt;
}

bool meets_a_transpose(const Editor& editor, ValueId x, ValueId out) {
  if (Match(editor).peek(x, Op::transpose)) return true;
  if (editor.is_output(out) || editor.readers(out).empty()) return false;
  for (NodeId reader : editor.readers(out))
    if (editor.node(reader).op != Op::transpose) return false;
  return true;
}

std::optional<Rewriting> rotary(const Editor& editor, NodeId root) {
  Match match(editor);
  RotaryChain chain;
  const ir::Node& node = editor.node(root);
  if (!(node.op == Op::add ? take_full_tables(match, root, &chain) : take_half_tables(match, root, &chain)))
    return std::nullopt;
  const ValueId out = node.outputs[0];
  const auto shape = editor.extents(chain.x);
  if (editor.extents(out) != shape || !ir::is_floating(editor.value(out).dtype)) return std::nullopt;
  auto cos = editor.extents(chain.cos);
  const auto place = head_place(shape, cos);
  if (!place || cos != editor.extents(chain.sin) || cos.back() != (chain.full_tables ? 2 : 1) * chain.half)
    return std::nullopt;
  const bool turn = *place == HeadPlace::behind_rows;
  if (turn && !meets_a_transpose(editor, chain.x, out)) return std::nullopt;
  const int64_t batch = cos.size() == 4 ? cos[0] : 1;
  const std::vector<int64_t> table{batch, shape[turn ? 1 : 2], chain.half}, perm{0, 2, 1, 3};
  return Rewriting{
      match.covers, {out}, [=](Editor& e) -> std::optional<std::vector<ValueId>> {
        std::optional<ValueId> x = chain.x, cos = chain.cos, sin = chain.sin;
        if (chain.full_tables) cos = first_half(e, chain.cos), sin = first_half(e, chain.sin);
        if (!cos || !sin) return std::nullopt;
        cos = e.as_shape(*cos, table), sin = e.as_shape(*sin, table);
        if (turn) x = e.add(Op::transpose, {*x}, {{{"perm", perm}}});
        if (!x || !cos || !sin) return std::nullopt;
        auto y =
            e.add(Op::rotary, {*x, *cos, *sin},
                  {{{"interleaved", int64_t{chain.interleaved}}, {"rotary_dim", int64_t{2 * chain.half}}}});
        if (y && turn) y = e.add(Op::transpose, {*y}, {{{"perm", perm}}});
        if (!y) return std::nullopt;
        return std::vector<ValueId>{*y};
      }};
}

}  // namespace

std::vector<Rule> rotary_rules() {
  return {{"rotary: columns turned by cos and sin", {Op::concat, Op::reshape, Op::add}, rotary}};
}

}  // namespace rtx::fuse

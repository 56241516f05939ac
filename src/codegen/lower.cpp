#include "codegen/lower.h"

#include <algorithm>

#include "base/assert.h"

namespace rtx::codegen {

using ir::DType;
using ir::Op;
using ir::OpClass;

namespace {

Error refusal(const std::string& why) { return user_error("cannot be computed element by element", why); }

std::string key_of(const Element& e) {
  ElementDag one;
  one.elements.push_back(e);
  return one.text();
}

// Coordinates of an operand of extents `from` that is broadcast against a result.
std::vector<Index> broadcast_coordinates(const std::vector<Index>& result, const std::vector<int64_t>& from) {
  std::vector<Index> out;
  const size_t skip = result.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) out.push_back(from[d] == 1 ? Index(0) : result[d + skip]);
  return out;
}

}  // namespace

std::vector<Index> variables_of(const std::vector<int64_t>& extents, int first) {
  std::vector<Index> out;
  for (const int64_t extent : extents) out.push_back(Index::variable(first++, extent));
  return out;
}

std::vector<int64_t> strides_of(const ir::Value& value) {
  return value.layout.strides.empty() ? ir::row_major_strides(ir::extents(value.shape)) : value.layout.strides;
}

bool lowers(Op op) {
  switch (ir::info(op).op_class) {
    case OpClass::pointwise: return true;
    case OpClass::movement: return op != Op::scatter_nd && op != Op::tensor_scatter;
    default: return false;
  }
}

Lowering::Lowering(const ir::Graph& body) : body_(body) {}

void Lowering::define_leaf(ir::ValueId value, int leaf, std::vector<Index> at) { leaves_[value].push_back({leaf, std::move(at)}); }

int Lowering::buffer(ir::ValueId value, bool output, int position) {
  for (size_t k = 0; k < dag_.buffers.size(); ++k)
    if (dag_.buffers[k].output == output && dag_.buffers[k].position == position) return static_cast<int>(k);
  DagBuffer out;
  out.value = value;
  out.output = output;
  out.position = position;
  out.dtype = body_.value(value).dtype;
  out.elements = ir::element_count(body_.extents(value));
  dag_.buffers.push_back(out);
  return static_cast<int>(dag_.buffers.size()) - 1;
}

int Lowering::add(Element element) {
  const std::string key = key_of(element);
  const auto [at, fresh] = known_.emplace(key, static_cast<int>(dag_.elements.size()));
  if (fresh) dag_.elements.push_back(std::move(element));
  return at->second;
}

int Lowering::integer(DType dtype, int64_t value) {
  Element e;
  e.kind = Element::Kind::constant;
  e.dtype = dtype;
  e.integer = value;
  e.real = static_cast<double>(value);
  return add(std::move(e));
}

int Lowering::operation(Op op, DType dtype, std::vector<int> arguments, ir::Attributes attributes) {
  Element e;
  e.kind = Element::Kind::op;
  e.op = op;
  e.dtype = dtype;
  e.arguments = std::move(arguments);
  e.attributes = std::move(attributes);
  return add(std::move(e));
}

int Lowering::load(ir::ValueId value, const std::vector<Index>& coordinates) {
  const ir::Value& v = body_.value(value);
  const auto at = std::find(body_.inputs.begin(), body_.inputs.end(), value);
  RTX_ASSERT(at != body_.inputs.end(), "a loaded value is an input of the body");
  Element e;
  e.kind = Element::Kind::load;
  e.dtype = v.dtype;
  e.buffer = buffer(value, false, static_cast<int>(at - body_.inputs.begin()));
  e.offset = ravel(coordinates, strides_of(v), v.layout.offset);
  e.guard = guard_;
  return add(std::move(e));
}

Result<int> Lowering::element(ir::ValueId value, const std::vector<Index>& coordinates) {
  RTX_ASSERT(coordinates.size() == body_.value(value).shape.size(), "one coordinate belongs to each dimension");
  std::string key = "value " + std::to_string(value) + " if " + std::to_string(guard_) + " at";
  for (const auto& c : coordinates) key += " " + c.text() + ",";
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  RTX_TRY(const int made, make(value, coordinates));
  if (dag_.elements.size() > static_cast<size_t>(kMaxElements))
    return refusal("the expression has more than " + std::to_string(kMaxElements) + " steps");
  known_.emplace(std::move(key), made);
  return made;
}

Result<Index> Lowering::index_of(ir::ValueId indices, const std::vector<Index>& coordinates, int64_t extent) {
  RTX_TRY(int index, element(indices, coordinates));
  if (body_.value(indices).dtype != DType::i64) index = operation(Op::cast, DType::i64, {index});
  const int negative = operation(Op::less, DType::boolean, {index, integer(DType::i64, 0)});
  const int wrapped = operation(Op::add, DType::i64, {index, integer(DType::i64, extent)});
  index = operation(Op::where, DType::i64, {negative, wrapped, index});
  index = operation(Op::max, DType::i64, {index, integer(DType::i64, 0)});
  index = operation(Op::min, DType::i64, {index, integer(DType::i64, std::max<int64_t>(extent - 1, 0))});
  return Index::of_element(index, extent);
}

Result<int> Lowering::pointwise(const ir::Node& node, ir::ValueId value, const std::vector<Index>& coordinates) {
  std::vector<int> arguments;
  for (const ir::ValueId input : node.inputs) {
    RTX_TRY(const int argument, element(input, broadcast_coordinates(coordinates, body_.extents(input))));
    arguments.push_back(argument);
  }
  return operation(node.op, body_.value(value).dtype, std::move(arguments), node.attributes);
}

Result<int> Lowering::piecewise(DType dtype, const Index& along, const std::vector<Piece>& pieces) {
  struct Made {
    int inside, value;
  };
  std::vector<Made> made;
  for (const auto& piece : pieces) {
    if (piece.low >= piece.high || along.maximum() < piece.low || along.minimum() >= piece.high) continue;
    const bool always = along.minimum() >= piece.low && along.maximum() < piece.high;
    int inside = -1;
    const int outer_guard = guard_;
    if (!always) {
      Element range;
      range.kind = Element::Kind::in_range;
      range.dtype = DType::boolean;
      range.offset = along;
      range.low = piece.low;
      range.high = piece.high;
      inside = add(std::move(range));
      guard_ = outer_guard < 0 ? inside : operation(Op::logical_and, DType::boolean, {outer_guard, inside});
    }
    auto value = piece.value();
    guard_ = outer_guard;
    if (!value) return std::move(value).error();
    made.push_back({inside, *value});
  }
  RTX_ASSERT(!made.empty(), "the pieces cover every coordinate");
  int result = made.back().value;  // needs no test: the others have excluded everything else
  for (size_t k = made.size() - 1; k-- > 0;) {
    Element choose;
    choose.kind = Element::Kind::select;
    choose.dtype = dtype;
    choose.arguments = {made[k].inside, made[k].value, result};
    result = add(std::move(choose));
  }
  return result;
}

Result<int> Lowering::concat(const ir::Node& node, const std::vector<Index>& coordinates) {
  const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
  int64_t begin = 0;
  std::vector<Piece> pieces;
  for (const ir::ValueId input : node.inputs) {
    const int64_t low = begin, high = begin + body_.extents(input)[axis];
    begin = high;
    pieces.push_back({low, high, [this, &coordinates, axis, low, input] {
                        auto inner = coordinates;
                        inner[axis] = coordinates[axis] - Index(low);
                        return element(input, inner);
                      }});
  }
  return piecewise(body_.value(node.outputs[0]).dtype, coordinates[axis], pieces);
}

// Pairs of columns turn by an angle: (a, b) -> (a cos - b sin, b cos + a sin). A pair is (2 p, 2 p + 1) or (p, p + half).
Result<int> Lowering::rotary(const ir::Node& node, const std::vector<Index>& coordinates) {
  const int64_t width = node.attributes.integer("rotary_dim"), half = width / 2;
  const bool interleaved = node.attributes.integer("interleaved") != 0;
  const DType dtype = body_.value(node.outputs[0]).dtype;
  const Index& column = coordinates[3];
  const auto at = [&](const Index& c) { return std::vector<Index>{coordinates[0], coordinates[1], coordinates[2], c}; };
  const auto turned = [&](bool second, const Index& pair) -> Result<int> {
    const Index partner = interleaved ? (second ? column - Index(1) : column + Index(1)) : (second ? column - Index(half) : column + Index(half));
    const auto angle = [&](size_t input) {
      return element(node.inputs[input], {body_.extents(node.inputs[input])[0] == 1 ? Index(0) : coordinates[0], coordinates[2], pair});
    };
    RTX_TRY(const int own, element(node.inputs[0], at(column)));
    RTX_TRY(const int other, element(node.inputs[0], at(partner)));
    RTX_TRY(const int cosine, angle(1));
    RTX_TRY(const int sine, angle(2));
    const int straight = operation(Op::mul, dtype, {own, cosine}), across = operation(Op::mul, dtype, {other, sine});
    return operation(second ? Op::add : Op::sub, dtype, {straight, across});
  };
  const Piece rest = {width, body_.extents(node.inputs[0])[3], [&] { return element(node.inputs[0], at(column)); }};
  if (!interleaved)
    return piecewise(dtype, column, {{0, half, [&] { return turned(false, column); }}, {half, width, [&] { return turned(true, column - Index(half)); }}, rest});
  const auto pair = [&] {
    const Index which = column % 2, number = column / 2;
    return piecewise(dtype, which, {{0, 1, [&] { return turned(false, number); }}, {1, 2, [&] { return turned(true, number); }}});
  };
  return piecewise(dtype, column, {{0, width, pair}, rest});
}

Result<int> Lowering::trilu(const ir::Node& node, ir::ValueId value, const std::vector<Index>& coordinates) {
  const size_t rank = coordinates.size();
  const int64_t k = node.attributes.integer("k");
  const bool upper = node.attributes.integer("upper", 1) != 0;
  const DType dtype = body_.value(value).dtype;
  RTX_TRY(const int kept, element(node.inputs[0], coordinates));
  Element range;  // upper: column - row >= k
  range.kind = Element::Kind::in_range;
  range.dtype = DType::boolean;
  range.offset = coordinates[rank - 1] - coordinates[rank - 2];
  range.low = upper ? k : range.offset.minimum();
  range.high = upper ? range.offset.maximum() + 1 : k + 1;
  if (range.low <= range.offset.minimum() && range.offset.maximum() < range.high) return kept;
  const int zero = integer(dtype, 0);
  if (range.high <= range.offset.minimum() || range.offset.maximum() < range.low) return zero;
  const int inside = add(std::move(range));
  Element choose;
  choose.kind = Element::Kind::select;
  choose.dtype = dtype;
  choose.arguments = {inside, kept, zero};
  return add(std::move(choose));
}

Result<int> Lowering::make(ir::ValueId value, const std::vector<Index>& coordinates) {
  if (const auto found = leaves_.find(value); found != leaves_.end()) {
    for (const auto& leaf : found->second) {
      if (leaf.at != coordinates) continue;
      Element e;
      e.kind = Element::Kind::leaf;
      e.dtype = body_.value(value).dtype;
      e.leaf = leaf.leaf;
      return add(std::move(e));
    }
    return refusal("another element of " + body_.value(value).name + " than the one at hand is needed");
  }
  const ir::Value& v = body_.value(value);
  if (v.constant) {
    if (v.constant->count() != 1) return refusal("constant " + v.name + " has more than one element");
    Element e;
    e.kind = Element::Kind::constant;
    e.dtype = v.dtype;
    e.real = v.constant->get_double(0);
    if (!ir::is_floating(v.dtype)) e.integer = v.constant->get_int(0);
    return add(std::move(e));
  }
  if (v.producer == ir::kNoNode) return load(value, coordinates);

  const ir::Node& node = body_.node(v.producer);
  if (ir::info(node.op).op_class == OpClass::pointwise) return pointwise(node, value, coordinates);
  const ir::ValueId source = node.inputs.empty() ? ir::kNoValue : node.inputs[0];
  switch (node.op) {
    case Op::reshape: {
      const auto extents = body_.extents(value), from = body_.extents(source);
      return element(source, unravel(ravel(coordinates, ir::row_major_strides(extents)), from));
    }
    case Op::transpose: {
      const auto perm = node.attributes.integers("perm");
      std::vector<Index> inner(coordinates.size());
      for (size_t d = 0; d < perm.size(); ++d) inner[static_cast<size_t>(perm[d])] = coordinates[d];
      return element(source, inner);
    }
    case Op::slice: {
      const auto starts = node.attributes.integers("starts"), steps = node.attributes.integers("steps");
      std::vector<Index> inner;
      for (size_t d = 0; d < coordinates.size(); ++d) inner.push_back(coordinates[d] * steps[d] + Index(starts[d]));
      return element(source, inner);
    }
    case Op::expand: return element(source, broadcast_coordinates(coordinates, body_.extents(source)));
    case Op::concat: return concat(node, coordinates);
    case Op::rotary: return rotary(node, coordinates);
    case Op::trilu: return trilu(node, value, coordinates);
    case Op::gather: {
      // out[a.., i.., b..] = data[a.., indices[i..], b..]
      const auto axis = static_cast<std::ptrdiff_t>(node.attributes.integer("axis"));
      const auto rank = static_cast<std::ptrdiff_t>(body_.extents(node.inputs[1]).size());
      const auto from = body_.extents(source);
      const std::vector<Index> at(coordinates.begin() + axis, coordinates.begin() + axis + rank);
      RTX_TRY(const Index index, index_of(node.inputs[1], at, from[static_cast<size_t>(axis)]));
      std::vector<Index> inner(coordinates.begin(), coordinates.begin() + axis);
      inner.push_back(index);
      inner.insert(inner.end(), coordinates.begin() + axis + rank, coordinates.end());
      return element(source, inner);
    }
    case Op::gather_nd: {
      // out[b.., i.., r..] = data[b.., indices[b.., i.., :], r..]
      const auto batch = static_cast<size_t>(node.attributes.integer("batch_dims"));
      const auto from = body_.extents(source), index_extents = body_.extents(node.inputs[1]);
      const size_t outer = index_extents.size() - 1;
      std::vector<Index> inner(coordinates.begin(), coordinates.begin() + static_cast<std::ptrdiff_t>(batch));
      for (int64_t k = 0; k < index_extents.back(); ++k) {
        std::vector<Index> at(coordinates.begin(), coordinates.begin() + static_cast<std::ptrdiff_t>(outer));
        at.push_back(Index(k));
        RTX_TRY(const Index index, index_of(node.inputs[1], at, from[batch + static_cast<size_t>(k)]));
        inner.push_back(index);
      }
      inner.insert(inner.end(), coordinates.begin() + static_cast<std::ptrdiff_t>(outer), coordinates.end());
      return element(source, inner);
    }
    default: break;
  }
  return refusal(std::string(ir::name(node.op)) + " is neither pointwise nor a movement of data");
}

Status Lowering::store(int output, const std::vector<Index>& coordinates, int element) {
  const ir::ValueId value = body_.outputs[static_cast<size_t>(output)];
  const ir::Value& v = body_.value(value);
  if (v.shape.size() != coordinates.size()) return refusal("an output's coordinates do not match its rank");
  Store s;
  s.buffer = buffer(value, true, output);
  s.offset = ravel(coordinates, strides_of(v), v.layout.offset);
  s.value = element;
  dag_.stores.push_back(std::move(s));
  return success();
}

}  // namespace rtx::codegen

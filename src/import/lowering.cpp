#include "import/lowering.h"

#include <algorithm>

#include "ir/dim.h"

namespace rtx::import {

int64_t product(const Extents& extents, size_t from, size_t to) {
  int64_t out = 1;
  for (size_t i = from; i < std::min(to, extents.size()); ++i)
    if (__builtin_mul_overflow(out, extents[i], &out))
      fail("a shape has more than 2^63 elements, " + ir::text(extents));
  return out;
}

Lowering::Lowering(Importer& importer, const onnx::NodeProto& node, Scope& scope, int64_t version, int depth)
    : importer_(importer), node_(node), scope_(scope), version_(version), depth_(depth) {
  for (const auto& name : node.input())
    inputs_.push_back(name.empty() ? ir::kNoValue : importer.lookup(scope, name));
}

ValueId Lowering::in(int i) const {
  if (!has(i)) fail("input " + std::to_string(i) + " is missing");
  return inputs_[static_cast<size_t>(i)];
}

bool Lowering::wants(int output) const {
  return output < node_.output_size() && !node_.output(output).empty();
}

void Lowering::out(int output, ValueId value) {
  if (wants(output)) importer_.define(scope_, node_.output(output), value);
}

const onnx::AttributeProto* Lowering::attribute(const std::string& name) const {
  for (const auto& attribute : node_.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    for (const Scope* at = &scope_; at != nullptr; at = at->parent) {
      if (at->call_attributes == nullptr) continue;
      auto found = at->call_attributes->find(attribute.ref_attr_name());
      return found == at->call_attributes->end() ? nullptr : found->second;
    }
    fail("attribute " + name + " refers to '" + attribute.ref_attr_name() + "' outside a function");
  }
  return nullptr;
}

int64_t Lowering::integer(const std::string& name, int64_t otherwise) const {
  const auto* found = attribute(name);
  if (found == nullptr) return otherwise;
  if (!found->has_i()) fail("attribute " + name + " is not an integer");
  return found->i();
}

int64_t Lowering::required_integer(const std::string& name) const {
  if (attribute(name) == nullptr) fail("attribute " + name + " is missing");
  return integer(name, 0);
}

double Lowering::real(const std::string& name, double otherwise) const {
  const auto* found = attribute(name);
  if (found == nullptr) return otherwise;
  if (!found->has_f()) fail("attribute " + name + " is not a number");
  return static_cast<double>(found->f());
}

std::string Lowering::text(const std::string& name, const std::string& otherwise) const {
  const auto* found = attribute(name);
  if (found == nullptr) return otherwise;
  if (!found->has_s()) fail("attribute " + name + " is not a text");
  return found->s();
}

std::optional<Extents> Lowering::integers(const std::string& name) const {
  const auto* found = attribute(name);
  if (found == nullptr) return {};
  return Extents(found->ints().begin(), found->ints().end());
}

ir::HostTensor Lowering::tensor(int i, const std::string& role) { return importer_.constant_of(in(i), role); }

Extents Lowering::ints(int i, const std::string& role) {
  const ir::HostTensor values = tensor(i, role);
  if (!ir::is_integer(values.dtype()))
    fail(role + " is " + std::string(ir::name(values.dtype())) + ", expected integers");
  Extents out;
  for (int64_t n = 0; n < values.count(); ++n) out.push_back(values.get_int(n));
  return out;
}

std::optional<Extents> Lowering::ints_of(const std::string& name, int i) {
  if (auto found = integers(name)) return found;
  if (has(i)) return ints(i, name);
  return {};
}

std::vector<ValueId> Lowering::nodes_of(Op op, std::vector<ValueId> inputs, int count,
                                        ir::Attributes attributes) {
  const std::string base = scope_.prefix + node_name(node_);
  return importer_.emit(op, std::move(inputs), count, std::move(attributes), {}, base);
}

ValueId Lowering::node_of(Op op, std::vector<ValueId> inputs, ir::Attributes attributes) {
  return nodes_of(op, std::move(inputs), 1, std::move(attributes))[0];
}

ValueId Lowering::constant(ir::HostTensor tensor) {
  return importer_.add_constant(scope_.prefix + node_name(node_), std::move(tensor));
}

ValueId Lowering::scalar(DType dtype, double value) { return constant(ir::HostTensor::scalar(dtype, value)); }

ValueId Lowering::iota(DType dtype, int64_t count, Extents shape) {
  if (count > kLongestCount) unsupported("it counts to " + std::to_string(count));
  ir::HostTensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < count; ++i) tensor.set_int(i, i);
  return constant(std::move(tensor));
}

ValueId Lowering::cast(ValueId x, DType to) {
  if (dtype(x) == to) return x;
  return importer_.emit(Op::cast, {x}, 1, {}, {{to, importer_.graph.value(x).shape}},
                        scope_.prefix + node_name(node_))[0];
}

ValueId Lowering::reshape(ValueId x, Extents extents) {
  if (shape(x) == extents) return x;
  if (product(shape(x)) != product(extents))
    fail(ir::text(shape(x)) + " cannot take the shape " + ir::text(extents));
  if (is_constant(x)) return constant(importer_.graph.value(x).constant->reshaped(std::move(extents)));
  return importer_.emit(Op::reshape, {x}, 1, {}, {{dtype(x), ir::to_shape(extents)}},
                        scope_.prefix + node_name(node_))[0];
}

ValueId Lowering::transpose(ValueId x, Extents perm) {
  bool identity = perm.size() == static_cast<size_t>(rank(x));
  for (size_t i = 0; i < perm.size(); ++i) identity = identity && perm[i] == static_cast<int64_t>(i);
  return identity ? x : node_of(Op::transpose, {x}, attrs({{"perm", perm}}));
}

ValueId Lowering::expand(ValueId x, Extents extents) {
  if (shape(x) == extents) return x;
  return importer_.emit(Op::expand, {x}, 1, {}, {{dtype(x), ir::to_shape(extents)}},
                        scope_.prefix + node_name(node_))[0];
}

ValueId Lowering::slice(ValueId x, Extents starts, Extents steps, Extents lengths) {
  const Extents from = shape(x);
  bool whole = from == lengths;
  for (size_t i = 0; i < starts.size(); ++i) {
    if (lengths[i] == 0) starts[i] = 0;
    if (lengths[i] <= 1) steps[i] = 1;
    whole = whole && starts[i] == 0 && (steps[i] == 1 || lengths[i] <= 1);
  }
  if (whole) return x;
  return importer_.emit(Op::slice, {x}, 1, attrs({{"starts", starts}, {"steps", steps}}),
                        {{dtype(x), ir::to_shape(lengths)}}, scope_.prefix + node_name(node_))[0];
}

ValueId Lowering::slice_axis(ValueId x, int64_t axis, int64_t start, int64_t length, int64_t step) {
  Extents lengths = shape(x);
  Extents starts(lengths.size(), 0);
  Extents steps(lengths.size(), 1);
  const auto at = static_cast<size_t>(axis);
  lengths[at] = length;
  starts[at] = start;
  steps[at] = step;
  return slice(x, std::move(starts), std::move(steps), std::move(lengths));
}

ValueId Lowering::concat(std::vector<ValueId> parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return node_of(Op::concat, std::move(parts), attrs({{"axis", axis}}));
}

ValueId Lowering::gather(ValueId x, ValueId indices, int64_t axis) {
  return node_of(Op::gather, {x, indices}, attrs({{"axis", axis}}));
}

ValueId Lowering::reduce(Op op, ValueId x, Extents axes, bool keepdims) {
  if (axes.empty()) return x;
  return node_of(op, {x}, attrs({{"axes", std::move(axes)}, {"keepdims", int64_t{keepdims}}}));
}

ValueId Lowering::matmul(ValueId a, ValueId b, bool trans_a, bool trans_b) {
  return node_of(Op::matmul, {a, b}, attrs({{"trans_a", int64_t{trans_a}}, {"trans_b", int64_t{trans_b}}}));
}

int64_t Lowering::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank)
    fail("axis " + std::to_string(axis) + " is outside [" + std::to_string(-rank) + ", " +
         std::to_string(rank - 1) + "]");
  return axis < 0 ? axis + rank : axis;
}

Extents Lowering::axes(const Extents& given, int64_t rank) const {
  Extents out;
  for (int64_t one : given) out.push_back(axis(one, rank));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end())
    fail("axes " + ir::text(given) + " name an axis twice");
  return out;
}

void Lowering::need_rank(ValueId x, int64_t wanted, const char* role) const {
  if (rank(x) != wanted)
    fail(std::string(role) + " has shape " + ir::text(shape(x)) + ", expected " + std::to_string(wanted) +
         " dimensions");
}

}  // namespace rtx::import

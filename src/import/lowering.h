#pragma once
// One ONNX node on its way into the graph: what it says (attributes, inputs) and the words operators build
// with. Every word throws Failure or Unsupported (failure.h); the driver adds file and node to the message.
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "import/failure.h"
#include "import/importer.h"

namespace rtx::import {

using ir::DType;
using ir::Op;
using ir::ValueId;
using Extents = std::vector<int64_t>;

inline ir::Attributes attrs(std::initializer_list<std::pair<const std::string, ir::Attribute>> items) {
  ir::Attributes out;
  for (const auto& [name, value] : items) out.items.emplace(name, value);
  return out;
}

class Lowering {
 public:
  Lowering(Importer& importer, const onnx::NodeProto& node, Scope& scope, int64_t version, int depth);

  // --- the node ---
  const onnx::NodeProto& node() const { return node_; }
  int64_t version() const { return version_; }  // of the operator set
  Importer& importer() { return importer_; }
  Scope& scope() { return scope_; }
  int depth() const { return depth_; }
  int input_count() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return i < input_count() && inputs_[static_cast<size_t>(i)] != ir::kNoValue; }
  ValueId in(int i) const;  // fails when absent
  ValueId in_or_none(int i) const { return has(i) ? inputs_[static_cast<size_t>(i)] : ir::kNoValue; }
  bool wants(int output) const;
  void out(int output, ValueId value);
  int output_count() const { return node_.output_size(); }

  const onnx::AttributeProto* attribute(const std::string& name) const;
  int64_t integer(const std::string& name, int64_t otherwise) const;
  int64_t required_integer(const std::string& name) const;
  double real(const std::string& name, double otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::optional<Extents> integers(const std::string& name) const;

  // --- values ---
  DType dtype(ValueId id) const { return importer_.graph.value(id).dtype; }
  Extents shape(ValueId id) const { return importer_.graph.extents(id); }
  int64_t rank(ValueId id) const { return static_cast<int64_t>(importer_.graph.value(id).shape.size()); }
  bool is_constant(ValueId id) const { return importer_.graph.is_constant(id); }
  ir::HostTensor tensor(int i, const std::string& role);  // of an input that must be known now
  Extents ints(int i, const std::string& role);
  // Attribute `name`, or input i from the version on at which it became one.
  std::optional<Extents> ints_of(const std::string& attribute, int i);

  // --- building ---
  ValueId node_of(Op op, std::vector<ValueId> inputs, ir::Attributes attributes = {});
  std::vector<ValueId> nodes_of(Op op, std::vector<ValueId> inputs, int count, ir::Attributes attributes);
  ValueId unary(Op op, ValueId x) { return node_of(op, {x}); }
  ValueId binary(Op op, ValueId a, ValueId b) { return node_of(op, {a, b}); }
  ValueId where(ValueId condition, ValueId a, ValueId b) { return node_of(Op::where, {condition, a, b}); }
  ValueId constant(ir::HostTensor tensor);
  ValueId scalar(DType dtype, double value);
  ValueId scalar_like(ValueId x, double value) { return scalar(dtype(x), value); }
  ValueId iota(DType dtype, int64_t count, Extents shape);  // 0, 1, ...
  ValueId cast(ValueId x, DType to);
  ValueId reshape(ValueId x, Extents extents);
  ValueId transpose(ValueId x, Extents perm);
  ValueId expand(ValueId x, Extents extents);
  ValueId slice(ValueId x, Extents starts, Extents steps, Extents lengths);
  ValueId slice_axis(ValueId x, int64_t axis, int64_t start, int64_t length, int64_t step = 1);
  ValueId concat(std::vector<ValueId> parts, int64_t axis);
  ValueId gather(ValueId x, ValueId indices, int64_t axis);
  ValueId reduce(Op op, ValueId x, Extents axes, bool keepdims);
  ValueId matmul(ValueId a, ValueId b, bool trans_a = false, bool trans_b = false);
  ValueId softmax(ValueId x, int64_t axis) { return node_of(Op::softmax, {x}, attrs({{"axis", axis}})); }

  // --- rules ---
  int64_t axis(int64_t axis, int64_t rank) const;         // non-negative; fails outside [-rank, rank)
  Extents axes(const Extents& axes, int64_t rank) const;  // sorted, distinct, non-negative
  void need_rank(ValueId x, int64_t rank, const char* role) const;

 private:
  Importer& importer_;
  const onnx::NodeProto& node_;
  Scope& scope_;
  int64_t version_;
  int depth_;
  std::vector<ValueId> inputs_;
};

// Counted sequences are constants: 1 GiB of i64.
constexpr int64_t kLongestCount = int64_t{1} << 27;

int64_t product(const Extents& extents, size_t from = 0, size_t to = SIZE_MAX);

}  // namespace rtx::import

#pragma once
// Graph: an SSA graph of tensor operators. Every value has a dtype, a shape and a layout; every node one operator of op.h.
//
//   values   graph inputs, constants and node outputs, in one array; a ValueId is its index
//   nodes    in topological order (the verifier checks it); a NodeId is its index
//   states   buffers that live across runs and are updated in place (a KV cache): an input value and the value that replaces it
//
// A graph is a plain value: copying it copies the structure and shares constant bytes. Passes are functions Graph -> Graph.
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/op.h"
#include "ir/tensor.h"

namespace rtx::ir {

using ValueId = int32_t;
using NodeId = int32_t;
constexpr ValueId kNoValue = -1;  // an absent optional input
constexpr NodeId kNoNode = -1;

// Strides in elements, one per dimension. An empty list means dense row-major. Only graph inputs and outputs may be strided.
struct Layout {
  std::vector<int64_t> strides;
  int64_t offset = 0;  // elements from the buffer's start
  bool dense() const { return strides.empty() && offset == 0; }
  bool operator==(const Layout&) const = default;
};

struct Value {
  std::string name;  // unique, never empty
  DType dtype = DType::f32;
  Shape shape;
  Layout layout;
  std::optional<HostTensor> constant;  // set for constants
  NodeId producer = kNoNode;           // kNoNode: graph input or constant
  bool weight = false;  // a graph input whose bytes never change between runs (a region's constant operand): kernels may pack it once
};

using Attribute = std::variant<int64_t, double, std::vector<int64_t>>;

struct Attributes {
  std::map<std::string, Attribute, std::less<>> items;
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  double real(std::string_view name, double otherwise = 0.0) const;
  std::vector<int64_t> integers(std::string_view name) const;  // empty when absent
  bool has(std::string_view name) const { return items.find(name) != items.end(); }
  bool operator==(const Attributes&) const = default;
};

struct Node {
  Op op = Op::add;
  std::vector<ValueId> inputs;  // kNoValue: absent optional input
  std::vector<ValueId> outputs;
  Attributes attributes;
  std::string name;  // where it came from, for messages: "block.3/attn/MatMul_12"
};

// A buffer that outlives a run. Alias rules (checked by the verifier): both values have one dtype; `input` is a graph input and
// `output` a graph output; the runtime keeps one buffer of `maximum` elements along `axis`, and every read of `input` in the
// schedule precedes the write of `output`.
struct State {
  std::string name;
  ValueId input = kNoValue;
  ValueId output = kNoValue;
  int axis = -1;        // the growing axis, -1: replaced as a whole
  int64_t maximum = 0;  // capacity along axis
};

// An input whose value was fixed when the graph was built because shapes depend on it; the runtime refuses other values.
struct SpecializedInput {
  std::string name;
  HostTensor value;
};

class Graph {
 public:
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;   // in the model's order (specialised inputs are not among them)
  std::vector<ValueId> outputs;  // in the model's order; may repeat a value, be an input or a constant
  std::vector<std::string> output_names;  // the model's names, one per output; empty: the values' own names
  std::vector<State> states;
  std::vector<SpecializedInput> specialized;

  // Builders: append and return ids. `add_node` infers the outputs' dtypes and shapes (infer.h) and asserts success; use
  // try_add_node for input of others.
  ValueId add_input(std::string name, DType dtype, Shape shape, Layout layout = {});
  ValueId add_constant(std::string name, HostTensor tensor);
  ValueId add_node(Op op, std::vector<ValueId> inputs, Attributes attributes = {}, std::string name = {});
  Result<ValueId> try_add_node(Op op, std::vector<ValueId> inputs, Attributes attributes = {}, std::string name = {});
  // All outputs of an operator that may have several (layer_norm: y, mean, inv_std_dev), `count` of them.
  Result<std::vector<ValueId>> try_add_nodes(Op op, std::vector<ValueId> inputs, int count, Attributes attributes = {}, std::string name = {});
  // For operators whose output type is not implied by inputs: cast (dtype), reshape / slice / expand (extents).
  ValueId add_node_as(Op op, std::vector<ValueId> inputs, DType dtype, Shape shape, Attributes attributes = {}, std::string name = {});
  Result<ValueId> try_add_node_as(Op op, std::vector<ValueId> inputs, DType dtype, Shape shape, Attributes attributes = {}, std::string name = {});

  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return nodes[static_cast<size_t>(id)]; }
  // Extents of a bound value.
  std::vector<int64_t> extents(ValueId id) const { return ir::extents(value(id).shape); }
  bool is_constant(ValueId id) const { return id != kNoValue && value(id).constant.has_value(); }
  bool is_input(ValueId id) const;
  bool is_output(ValueId id) const;
  std::string output_name(size_t index) const;
  // Nodes that read each value, in order (a node reading it twice appears twice).
  std::vector<std::vector<NodeId>> readers() const;
  // Readers of all values depend on it and it on producers: a fresh name "base", "base_1", ...
  std::string fresh_name(const std::string& base) const;
  std::vector<Symbol> unbound_symbols() const;
  // "add f32[1,8]": for messages.
  std::string describe(NodeId id) const;
};

// Attributes with the defaults of op.h filled in and integers where a real is wanted turned into reals.
Attributes complete(Op op, Attributes attributes);
// Equal up to the numbering of values and nodes' origins (Node::name): same inputs, constants, operators in the same order,
// attributes, types, layouts, outputs and states; value names are compared unless told otherwise.
bool same_structure(const Graph& a, const Graph& b, bool compare_names = true);
// Removes nodes and values that no output depends on, renumbers, and keeps graph inputs. Stable order.
Graph without_dead_code(const Graph& graph);
// Rebuilds topological order; fails naming a node of the cycle.
Result<Graph> sorted(Graph graph);
// The subgraph of `nodes` as a graph of its own, `outputs` its outputs. What it reads from outside becomes inputs, in order of
// first use; constants of more than one element become inputs marked `weight` (their values do not change code), single-element
// constants stay constants (they are inlined into the kernel). `input_map` (optional out): outer ValueId of each inner input.
Graph extract(const Graph& graph, const std::vector<NodeId>& nodes, const std::vector<ValueId>& outputs, std::vector<ValueId>* input_map = nullptr);

}  // namespace rtx::ir

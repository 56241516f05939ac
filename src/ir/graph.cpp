#include "ir/graph.h"

#include <algorithm>
#include <set>

#include "base/assert.h"
#include "ir/infer.h"

namespace rtx::ir {

int64_t Attributes::integer(std::string_view name, int64_t otherwise) const {
  auto found = items.find(name);
  if (found == items.end()) return otherwise;
  if (auto* whole = std::get_if<int64_t>(&found->second)) return *whole;
  return otherwise;
}

double Attributes::real(std::string_view name, double otherwise) const {
  auto found = items.find(name);
  if (found == items.end()) return otherwise;
  if (auto* number = std::get_if<double>(&found->second)) return *number;
  if (auto* whole = std::get_if<int64_t>(&found->second)) return static_cast<double>(*whole);
  return otherwise;
}

std::vector<int64_t> Attributes::integers(std::string_view name) const {
  auto found = items.find(name);
  if (found == items.end()) return {};
  if (auto* list = std::get_if<std::vector<int64_t>>(&found->second)) return *list;
  return {};
}

Attributes complete(Op op, Attributes attributes) {
  for (const auto& row : attributes_of(op)) {
    auto found = attributes.items.find(row.name);
    if (found == attributes.items.end()) {
      if (row.required) continue;
      if (row.kind == AttributeKind::integer) {
        attributes.items.emplace(row.name, static_cast<int64_t>(row.otherwise));
      } else if (row.kind == AttributeKind::real) {
        attributes.items.emplace(row.name, row.otherwise);
      }
    } else if (row.kind == AttributeKind::real) {
      if (auto* whole = std::get_if<int64_t>(&found->second)) found->second = static_cast<double>(*whole);
    }
  }
  return attributes;
}

ValueId Graph::add_input(std::string input_name, DType dtype, Shape shape, Layout layout) {
  const auto id = static_cast<ValueId>(values.size());
  values.push_back({std::move(input_name), dtype, std::move(shape), std::move(layout), std::nullopt, kNoNode});
  inputs.push_back(id);
  return id;
}

ValueId Graph::add_constant(std::string constant_name, HostTensor tensor) {
  const auto id = static_cast<ValueId>(values.size());
  const DType dtype = tensor.dtype();
  Shape shape = to_shape(tensor.extents());
  values.push_back({std::move(constant_name), dtype, std::move(shape), {}, std::move(tensor), kNoNode});
  return id;
}

namespace {

Result<std::vector<ValueId>> append(Graph& graph, Op op, std::vector<ValueId> inputs, Attributes attributes, std::string name,
                                    size_t count, const std::vector<ValueType>& wanted) {
  Node node{op, std::move(inputs), {}, complete(op, std::move(attributes)), std::move(name)};
  RTX_TRY(auto types, infer(graph, node, wanted));
  if (count > types.size()) {
    return user_error("operator " + std::string(ir::name(op)) + " has no output " + std::to_string(count - 1));
  }
  const std::string base = node.name.empty() ? std::string(ir::name(op)) : node.name;
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<ValueId>(graph.values.size());
    graph.values.push_back({graph.fresh_name(base), types[i].dtype, std::move(types[i].shape), {}, std::nullopt,
                            static_cast<NodeId>(graph.nodes.size())});
    node.outputs.push_back(id);
  }
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().outputs;
}

ValueId must(Result<ValueId> id) {
  if (!id.ok()) assertion_failed(id.error().text().c_str(), "a pass adds nodes that infer", __FILE_NAME__, __LINE__);
  return *id;
}

}  // namespace

Result<std::vector<ValueId>> Graph::try_add_nodes(Op op, std::vector<ValueId> node_inputs, int count, Attributes attributes,
                                                  std::string node_name) {
  return append(*this, op, std::move(node_inputs), std::move(attributes), std::move(node_name), static_cast<size_t>(count), {});
}

Result<ValueId> Graph::try_add_node(Op op, std::vector<ValueId> node_inputs, Attributes attributes, std::string node_name) {
  RTX_TRY(auto ids, append(*this, op, std::move(node_inputs), std::move(attributes), std::move(node_name), 1, {}));
  return ids[0];
}

Result<ValueId> Graph::try_add_node_as(Op op, std::vector<ValueId> node_inputs, DType dtype, Shape shape, Attributes attributes,
                                       std::string node_name) {
  std::vector<ValueType> wanted{{dtype, std::move(shape)}};
  RTX_TRY(auto ids, append(*this, op, std::move(node_inputs), std::move(attributes), std::move(node_name), 1, wanted));
  return ids[0];
}

ValueId Graph::add_node(Op op, std::vector<ValueId> node_inputs, Attributes attributes, std::string node_name) {
  return must(try_add_node(op, std::move(node_inputs), std::move(attributes), std::move(node_name)));
}

ValueId Graph::add_node_as(Op op, std::vector<ValueId> node_inputs, DType dtype, Shape shape, Attributes attributes,
                           std::string node_name) {
  return must(try_add_node_as(op, std::move(node_inputs), dtype, std::move(shape), std::move(attributes), std::move(node_name)));
}

bool Graph::is_input(ValueId id) const { return std::find(inputs.begin(), inputs.end(), id) != inputs.end(); }
bool Graph::is_output(ValueId id) const { return std::find(outputs.begin(), outputs.end(), id) != outputs.end(); }

std::string Graph::output_name(size_t index) const {
  return output_names.empty() ? value(outputs[index]).name : output_names[index];
}

std::vector<std::vector<NodeId>> Graph::readers() const {
  std::vector<std::vector<NodeId>> out(values.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (ValueId id : nodes[n].inputs) {
      if (id != kNoValue) out[static_cast<size_t>(id)].push_back(static_cast<NodeId>(n));
    }
  }
  return out;
}

std::string Graph::fresh_name(const std::string& base) const {
  std::set<std::string_view> taken;
  for (const auto& value : values) {
    if (value.name.starts_with(base)) taken.insert(value.name);
  }
  if (!taken.count(base)) return base;
  for (size_t i = 1;; ++i) {
    std::string candidate = base + "_" + std::to_string(i);
    if (!taken.count(candidate)) return candidate;
  }
}

std::vector<Symbol> Graph::unbound_symbols() const {
  std::vector<Symbol> out;
  for (const auto& value : values) {
    for (const auto& dim : value.shape) dim.collect_symbols(out);
  }
  return out;
}

std::string Graph::describe(NodeId id) const {
  const Node& described = node(id);
  std::string out(ir::name(described.op));
  const ValueId shown = described.outputs.empty() ? kNoValue : described.outputs[0];
  if (shown >= 0 && static_cast<size_t>(shown) < values.size()) {
    out += " " + std::string(ir::name(value(shown).dtype)) + text(value(shown).shape);
  }
  if (!described.name.empty()) out = "node " + described.name + ": " + out;
  return out;
}

}  // namespace rtx::ir

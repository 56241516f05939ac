#include "import/source.h"

#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "import/failure.h"

namespace rtx::import {
namespace {

constexpr uint32_t kNodeOverload = 8;
constexpr uint32_t kFunctionAttributeProto = 11;
constexpr uint32_t kFunctionOverload = 13;
constexpr int kDeepestSubgraph = 40;

std::string first_or_empty(const std::vector<std::string>& list) {
  return list.empty() ? std::string() : list[0];
}

std::string function_key(const std::string& domain, const std::string& name, const std::string& overload) {
  return canonical_domain(domain) + "\n" + name + "\n" + overload;
}

template <class Visit>
void for_each_subgraph(const onnx::NodeProto& node, const Visit& visit) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) visit(attribute.g());
    for (const auto& graph : attribute.graphs()) visit(graph);
  }
}

void collect_names_read(const onnx::NodeProto& node, int depth, std::vector<std::string>& out) {
  if (depth > kDeepestSubgraph)
    fail("subgraphs are nested more than " + std::to_string(kDeepestSubgraph) + " deep");
  for (const auto& name : node.input())
    if (!name.empty()) out.push_back(name);
  for_each_subgraph(node, [&](const onnx::GraphProto& graph) {
    std::unordered_set<std::string> own;
    for (const auto& input : graph.input()) own.insert(input.name());
    for (const auto& tensor : graph.initializer()) own.insert(tensor.name());
    for (const auto& inner : graph.node())
      for (const auto& name : inner.output()) own.insert(name);
    std::vector<std::string> read;
    for (const auto& inner : graph.node()) collect_names_read(inner, depth + 1, read);
    for (const auto& output : graph.output()) read.push_back(output.name());
    for (auto& name : read)
      if (!own.count(name)) out.push_back(std::move(name));
  });
}

}  // namespace

std::vector<std::string> names_read(const onnx::NodeProto& node) {
  std::vector<std::string> out;
  collect_names_read(node, 0, out);
  return out;
}

std::string node_name(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const auto& output : node.output())
    if (!output.empty()) return output;
  return "(unnamed)";
}

std::string node_label(const onnx::NodeProto& node) {
  const std::string domain = canonical_domain(node.domain());
  return "node " + node_name(node) + ": " + (domain.empty() ? "" : domain + "::") + node.op_type();
}

std::vector<const onnx::NodeProto*> sorted_nodes(const Nodes& nodes,
                                                 const std::function<bool(const std::string&)>& known) {
  const auto count = static_cast<size_t>(nodes.size());
  std::unordered_map<std::string, size_t> producer;
  for (size_t n = 0; n < count; ++n) {
    for (const auto& name : nodes[static_cast<int>(n)].output()) {
      if (name.empty()) continue;
      if (!producer.emplace(name, n).second) fail("two nodes produce '" + name + "'");
    }
  }
  std::vector<std::vector<size_t>> readers(count);
  std::vector<size_t> waiting(count, 0);
  for (size_t n = 0; n < count; ++n) {
    const auto& node = nodes[static_cast<int>(n)];
    for (const auto& name : names_read(node)) {
      auto found = producer.find(name);
      if (found == producer.end()) {
        if (!known(name)) fail(node_label(node) + " reads '" + name + "', which nothing produces");
        continue;
      }
      readers[found->second].push_back(n);
      ++waiting[n];
    }
  }
  // The smallest index first keeps the model's own order where it is already sorted.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t n = 0; n < count; ++n)
    if (waiting[n] == 0) ready.push(n);
  std::vector<const onnx::NodeProto*> out;
  while (!ready.empty()) {
    const size_t n = ready.top();
    ready.pop();
    out.push_back(&nodes[static_cast<int>(n)]);
    for (size_t reader : readers[n])
      if (--waiting[reader] == 0) ready.push(reader);
  }
  for (size_t n = 0; n < count; ++n)
    if (waiting[n] != 0)
      fail(node_label(nodes[static_cast<int>(n)]) + " stands in a cycle: it depends on its own result");
  return out;
}

std::vector<const onnx::NodeProto*> needed_nodes(const std::vector<const onnx::NodeProto*>& sorted,
                                                 const std::vector<std::string>& outputs) {
  std::unordered_set<std::string> needed(outputs.begin(), outputs.end());
  std::vector<const onnx::NodeProto*> out;
  for (auto node = sorted.rbegin(); node != sorted.rend(); ++node) {
    bool wanted = false;
    for (const auto& name : (*node)->output()) wanted = wanted || (!name.empty() && needed.count(name));
    if (!wanted) continue;
    for (auto& name : names_read(**node)) needed.insert(std::move(name));
    out.push_back(*node);
  }
  return {out.rbegin(), out.rend()};
}

Functions::Functions(const onnx::ModelProto& model) {
  for (const auto& proto : model.functions()) {
    Function function{&proto, opsets_of(proto.opset_import()), {}};
    const auto model_opsets = opsets_of(model.opset_import());
    for (const auto& [domain, version] : model_opsets) function.opsets.emplace(domain, version);
    for (const auto& bytes : unknown_fields(proto.unknown_fields(), kFunctionAttributeProto)) {
      onnx::AttributeProto attribute;
      if (attribute.ParsePartialFromString(bytes)) function.defaults[attribute.name()] = std::move(attribute);
    }
    const std::string overload = first_or_empty(unknown_fields(proto.unknown_fields(), kFunctionOverload));
    if (!functions_.emplace(function_key(proto.domain(), proto.name(), overload), std::move(function)).second)
      fail("function " + proto.domain() + "::" + proto.name() + " is defined twice");
  }
}

const Function* Functions::find(const onnx::NodeProto& call) const {
  if (functions_.empty()) return nullptr;
  const std::string overload = first_or_empty(unknown_fields(call.unknown_fields(), kNodeOverload));
  auto found = functions_.find(function_key(call.domain(), call.op_type(), overload));
  return found == functions_.end() ? nullptr : &found->second;
}

}  // namespace rtx::import

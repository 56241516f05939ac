// What a model says about itself before anything is bound, and which inputs must be given by value.
#include <unordered_map>
#include <unordered_set>

#include "import/element_type.h"
#include "import/failure.h"
#include "import/onnx.h"
#include "import/operators.h"
#include "import/source.h"

namespace rtx::import {
namespace {

constexpr int kDeepestWalk = 40;
constexpr size_t kMostFlatNodes = 4'000'000;

TensorInfo tensor_info(const onnx::ValueInfoProto& value) {
  TensorInfo info;
  info.name = value.name();
  if (!value.type().has_tensor_type()) {
    info.dtype = "not a tensor";
    info.ranked = false;
    return info;
  }
  const auto& type = value.type().tensor_type();
  info.dtype = onnx_dtype_name(type.elem_type());
  info.ranked = type.has_shape();
  for (const auto& dim : type.shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0)
      info.shape.push_back(std::to_string(dim.dim_value()));
    else
      info.shape.push_back(dim.dim_param().empty() ? "?" : dim.dim_param());
  }
  return info;
}

void count_nodes(const Nodes& nodes, int depth, ModelInfo& info) {
  if (depth > kDeepestWalk) fail("subgraphs are nested more than " + std::to_string(kDeepestWalk) + " deep");
  for (const auto& node : nodes) {
    const std::string domain = canonical_domain(node.domain());
    ++info.node_count;
    ++info.op_histogram[domain.empty() ? node.op_type() : domain + "::" + node.op_type()];
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) count_nodes(attribute.g().node(), depth + 1, info);
      for (const auto& graph : attribute.graphs()) count_nodes(graph.node(), depth + 1, info);
    }
  }
}

// Nodes of the whole model with names made unique by scope; calls and branches are linked by nodes that copy.
struct FlatNode {
  const OperatorRow* row = nullptr;  // null: copies, or an operator that is not covered
  bool reads_shape_only = false;
  std::vector<std::string> inputs, outputs;
};

class Flattener {
 public:
  explicit Flattener(const onnx::ModelProto& model) : functions_(model) {}
  std::vector<FlatNode> nodes;

  void walk(const Nodes& list, const std::string& prefix,
            const std::unordered_map<std::string, std::string>& outer, int depth) {
    if (depth > kDeepestWalk)
      fail("functions or subgraphs are nested more than " + std::to_string(kDeepestWalk) + " deep");
    std::unordered_map<std::string, std::string> names = outer;
    for (const auto& node : list)
      for (const auto& name : node.output())
        if (!name.empty()) names[name] = prefix + name;
    const auto resolve = [&](const std::string& name) {
      auto found = names.find(name);
      return found == names.end() ? (name.empty() ? std::string() : prefix + name) : found->second;
    };
    for (const auto& node : list) {
      if (nodes.size() > kMostFlatNodes) fail("the model is too large after its functions are written out");
      const std::string inner = prefix + "\n" + std::to_string(nodes.size()) + "/";
      if (const Function* function = functions_.find(node)) {
        std::unordered_map<std::string, std::string> formal;
        for (int i = 0; i < function->proto->input_size(); ++i)
          formal[function->proto->input(i)] = i < node.input_size() ? resolve(node.input(i)) : "";
        walk(function->proto->node(), inner, formal, depth + 1);
        for (int i = 0; i < node.output_size() && i < function->proto->output_size(); ++i) {
          const std::string& result = function->proto->output(i);
          auto passed = formal.find(result);
          nodes.push_back({nullptr,
                           false,
                           {passed == formal.end() ? inner + result : passed->second},
                           {resolve(node.output(i))}});
        }
        continue;
      }
      FlatNode flat;
      const std::string domain = canonical_domain(node.domain());
      flat.row = find_operator(domain, node.op_type());
      flat.reads_shape_only = domain.empty() && (node.op_type() == "Shape" || node.op_type() == "Size" ||
                                                 node.op_type() == "EyeLike");
      for (const auto& name : node.input()) flat.inputs.push_back(resolve(name));
      for (const auto& name : node.output()) flat.outputs.push_back(resolve(name));
      for (const auto& attribute : node.attribute()) {
        if (!attribute.has_g()) continue;
        const std::string branch = inner + attribute.name() + "/";
        walk(attribute.g().node(), branch, names, depth + 1);
        std::unordered_set<std::string> own;
        for (const auto& one : attribute.g().node()) own.insert(one.output().begin(), one.output().end());
        for (int i = 0; i < node.output_size() && i < attribute.g().output_size(); ++i) {
          const std::string& result = attribute.g().output(i).name();
          nodes.push_back({nullptr,
                           false,
                           {own.count(result) ? branch + result : resolve(result)},
                           {resolve(node.output(i))}});
        }
      }
      nodes.push_back(std::move(flat));
    }
  }

 private:
  Functions functions_;
};

// Dropout looks at its ratio only where a training mode is given.
bool decides(const FlatNode& node, size_t i) {
  if (node.row == nullptr || i >= 32 || !(node.row->value_inputs >> i & 1)) return false;
  if (std::string_view(node.row->name) == "Dropout") return node.inputs.size() > 2 && !node.inputs[2].empty();
  return true;
}

std::vector<std::string> deciding_inputs(const ModelFile& model) {
  const onnx::GraphProto& graph = model.proto->graph();
  Flattener flat(*model.proto);
  std::unordered_map<std::string, std::string> outer;
  for (const auto& input : graph.input()) outer[input.name()] = input.name();
  for (const auto& tensor : graph.initializer()) outer[tensor.name()] = tensor.name();
  flat.walk(graph.node(), "", outer, 0);
  std::unordered_map<std::string, std::vector<size_t>> producers;
  std::vector<std::string> wanted;
  std::unordered_set<std::string> seen;
  const auto want = [&](const std::string& name) {
    if (!name.empty() && seen.insert(name).second) wanted.push_back(name);
  };
  for (size_t n = 0; n < flat.nodes.size(); ++n) {
    for (const auto& name : flat.nodes[n].outputs) producers[name].push_back(n);
    for (size_t i = 0; i < flat.nodes[n].inputs.size(); ++i)
      if (decides(flat.nodes[n], i)) want(flat.nodes[n].inputs[i]);
  }
  while (!wanted.empty()) {
    const std::string name = wanted.back();
    wanted.pop_back();
    auto found = producers.find(name);
    if (found == producers.end()) continue;
    for (size_t n : found->second) {
      if (flat.nodes[n].reads_shape_only) continue;
      for (const auto& input : flat.nodes[n].inputs) want(input);
    }
  }
  std::unordered_set<std::string> initialised;
  for (const auto& tensor : graph.initializer()) initialised.insert(tensor.name());
  std::vector<std::string> out;
  for (const auto& input : graph.input())
    if (seen.count(input.name()) && !initialised.count(input.name())) out.push_back(input.name());
  return out;
}

ModelInfo info_of(const ModelFile& model) {
  ModelInfo info;
  const onnx::GraphProto& graph = model.proto->graph();
  info.ir_version = model.proto->ir_version();
  info.producer = model.proto->producer_name();
  for (const auto& [domain, version] : model.opsets)
    info.opsets[domain.empty() ? "ai.onnx" : domain] = version;
  std::unordered_set<std::string> initialised;
  for (const auto& tensor : graph.initializer()) initialised.insert(tensor.name());
  for (const auto& input : graph.input())
    if (!initialised.count(input.name())) info.inputs.push_back(tensor_info(input));
  for (const auto& output : graph.output()) info.outputs.push_back(tensor_info(output));
  count_nodes(graph.node(), 0, info);
  for (const auto& function : model.proto->functions()) count_nodes(function.node(), 0, info);
  info.shape_deciding_inputs = deciding_inputs(model);
  return info;
}

}  // namespace

std::string TensorInfo::text() const {
  if (!ranked) return dtype;
  std::string out = dtype + "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "," : "") + shape[i];
  return out + "]";
}

Result<ModelInfo> inspect(const std::string& path) {
  RTX_TRY(auto model, read_model(path));
  try {
    return info_of(model);
  } catch (Failure& failure) {
    failure.error.what = "cannot read " + path;
    return std::move(failure.error);
  }
}

Result<std::vector<std::string>> shape_deciding_inputs(const std::string& path) {
  RTX_TRY(auto info, inspect(path));
  return std::move(info.shape_deciding_inputs);
}

}  // namespace rtx::import

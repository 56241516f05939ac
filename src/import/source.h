#pragma once
// Views of the model file: node order, names a subgraph captures, functions.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "import/model_file.h"

namespace rtx::import {

// The nodes of one graph in an order in which producers come first. `known` says whether a name comes from
// outside the list (inputs, initialisers, outer scopes). Throws Failure for cycles, names produced twice and
// names that nothing produces.
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
std::vector<const onnx::NodeProto*> sorted_nodes(const Nodes& nodes,
                                                 const std::function<bool(const std::string&)>& known);

// Those of them that `outputs` depend on, same order.
std::vector<const onnx::NodeProto*> needed_nodes(const std::vector<const onnx::NodeProto*>& sorted,
                                                 const std::vector<std::string>& outputs);

// Names a node reads: its inputs and what its subgraphs take from outside, without empty names.
std::vector<std::string> names_read(const onnx::NodeProto& node);

// "node attn/softmax: Softmax"; an unnamed node goes by its first output.
std::string node_label(const onnx::NodeProto& node);
std::string node_name(const onnx::NodeProto& node);

struct Function {
  const onnx::FunctionProto* proto = nullptr;
  std::map<std::string, int64_t> opsets;
  std::map<std::string, onnx::AttributeProto> defaults;  // attributes with a default value
};

// Model-local functions by domain, name and overload.
class Functions {
 public:
  explicit Functions(const onnx::ModelProto& model);
  const Function* find(const onnx::NodeProto& call) const;
  const std::map<std::string, Function>& all() const { return functions_; }

 private:
  std::map<std::string, Function> functions_;
};

}  // namespace rtx::import

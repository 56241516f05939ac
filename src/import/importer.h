#pragma once
// The driver: walks the model's nodes in order, gives each to its operator (operators.h), folds what is
// constant, collects what is unsupported. Function calls and branches of If with a known condition are walked
// in place, in scopes of their own.
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "import/onnx.h"
#include "import/source.h"
#include "ir/infer.h"

namespace rtx::import {

// A value that an unsupported node or an unbound input should have given. What reads it is only checked by
// name.
constexpr ir::ValueId kPoison = -2;

struct Scope {
  Scope* parent = nullptr;  // null for the main graph and for function bodies, which see nothing outside
  std::unordered_map<std::string, ir::ValueId> values;
  std::unordered_map<std::string, const onnx::TensorProto*> initializers;
  const std::map<std::string, int64_t>* opsets = nullptr;
  const std::map<std::string, const onnx::AttributeProto*>* call_attributes = nullptr;
  std::string prefix;  // of value and node names
};

class Importer {
 public:
  Importer(ModelFile file, const Options& options)
      : file_(std::move(file)), options_(options), functions_(*file_.proto) {}
  ir::Graph run();

  // --- for operators, through Lowering ---
  ir::Graph graph;
  // Appends a node with `count` results, or constants where everything it reads is constant and the result is
  // small enough.
  std::vector<ir::ValueId> emit(ir::Op op, std::vector<ir::ValueId> inputs, int count,
                                ir::Attributes attributes, const std::vector<ir::ValueType>& wanted,
                                const std::string& name);
  ir::ValueId add_constant(const std::string& base, ir::HostTensor tensor);
  ir::ValueId lookup(Scope& scope, const std::string& name);
  bool resolvable(const Scope& scope, const std::string& name) const;
  void define(Scope& scope, const std::string& name, ir::ValueId value);
  // The tensor behind a value; computes it now where it was too large to fold. Throws where it depends on a
  // graph input.
  ir::HostTensor constant_of(ir::ValueId id, const std::string& role);
  ir::HostTensor tensor(const onnx::TensorProto& proto) {
    return tensor_of(proto, file_.proto, file_.external.get());
  }
  void walk(const onnx::GraphProto& branch, Scope& scope, int depth);

 private:
  void bind_inputs(Scope& scope);
  ir::ValueId bind_input(const onnx::ValueInfoProto& input);
  void check_options(const std::vector<const onnx::ValueInfoProto*>& inputs);
  void collect_symbols();
  void bind_symbol(const std::string& symbol, int64_t value, const std::string& source);
  void walk_nodes(const Nodes& nodes, const std::vector<std::string>& outputs, Scope& scope, int depth);
  void walk_node(const onnx::NodeProto& node, Scope& scope, int depth);
  void call_function(const Function& function, const onnx::NodeProto& node, Scope& scope, int depth);
  void poison_outputs(const onnx::NodeProto& node, Scope& scope);
  void note_unsupported(const onnx::NodeProto& node, const Scope& scope, std::string why);
  std::string unique_name(const std::string& base);
  void rename(ir::ValueId id, const std::string& name);
  [[noreturn]] void report_unsupported() const;
  [[noreturn]] void report_unbound() const;
  void finish(Scope& scope);

  struct UnsupportedNode {
    std::string op, name, why;
  };
  struct Binding {
    int64_t value;
    std::string source;  // "--dim batch=2"
  };
  // A dimension of an input that nothing gives a value.
  struct Unbound {
    std::string why;
    std::string symbol;        // its name; empty: only a shape can bind it
    std::string shape_option;  // "--shape x=1x128"
  };

  ModelFile file_;
  const Options& options_;
  Functions functions_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> name_counters_;
  std::set<ir::ValueId> named_;
  std::map<std::string, Binding> symbols_;
  std::vector<UnsupportedNode> unsupported_;
  std::vector<Unbound> unbound_;
  std::set<ir::ValueId> without_value_;  // graph inputs not bound by value
  int64_t walked_nodes_ = 0;
};

}  // namespace rtx::import

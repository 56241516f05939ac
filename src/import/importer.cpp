#include "import/importer.h"

#include <algorithm>
#include <map>
#include <new>
#include <set>

#include "import/element_type.h"
#include "import/failure.h"
#include "import/fold.h"
#include "import/operators.h"
#include "ir/verify.h"

namespace rtx::import {
namespace {

constexpr int kDeepestNesting = 40;
constexpr int64_t kMostNodes = 4'000'000;
constexpr int64_t kForcedLimitBytes = int64_t{1} << 30;
constexpr int kDeepestForcedChain = 500;
constexpr int64_t kMostFoldedProducts = 200'000'000;

// INT64_MAX where the size does not fit.
int64_t bytes_of(ir::DType dtype, const std::vector<int64_t>& extents) {
  int64_t bytes = ir::bytes_of(dtype);
  bool fits = true;
  for (int64_t extent : extents) {
    if (extent == 0) return 0;
    fits = fits && !__builtin_mul_overflow(bytes, extent, &bytes);
  }
  return fits ? bytes : INT64_MAX;
}

int64_t bytes_of(const ir::Graph& graph, ir::ValueId id) {
  return bytes_of(graph.value(id).dtype, graph.extents(id));
}

std::string describe_inputs(const Scope& scope, const onnx::NodeProto& node, const ir::Graph& graph) {
  std::string out;
  for (const auto& name : node.input()) {
    auto found = scope.values.find(name);
    if (!out.empty()) out += ", ";
    if (found == scope.values.end() || found->second < 0) {
      out += name.empty() ? "_" : "?";
    } else {
      const ir::Value& value = graph.value(found->second);
      out += std::string(ir::name(value.dtype)) + ir::text(value.shape);
    }
  }
  return out;
}

}  // namespace

std::string Importer::unique_name(const std::string& base) {
  const std::string wanted = base.empty() ? "value" : base;
  if (names_.insert(wanted).second) return wanted;
  for (int& i = name_counters_[wanted];;) {
    std::string candidate = wanted + "_" + std::to_string(++i);
    if (names_.insert(candidate).second) return candidate;
  }
}

void Importer::rename(ir::ValueId id, const std::string& name) {
  if (id < 0 || !named_.insert(id).second) return;
  ir::Value& value = graph.value(id);
  if (value.name == name) return;
  names_.erase(value.name);
  value.name = unique_name(name);
}

ir::ValueId Importer::add_constant(const std::string& base, ir::HostTensor tensor) {
  return graph.add_constant(unique_name(base), std::move(tensor));
}

bool Importer::resolvable(const Scope& scope, const std::string& name) const {
  for (const Scope* at = &scope; at != nullptr; at = at->parent)
    if (at->values.count(name) || at->initializers.count(name)) return true;
  return false;
}

ir::ValueId Importer::lookup(Scope& scope, const std::string& name) {
  for (Scope* at = &scope; at != nullptr; at = at->parent) {
    if (auto found = at->values.find(name); found != at->values.end()) return found->second;
    if (auto found = at->initializers.find(name); found != at->initializers.end()) {
      const ir::ValueId id = add_constant(at->prefix + name, tensor(*found->second));
      named_.insert(id);
      at->values.emplace(name, id);
      return id;
    }
  }
  fail("'" + name + "' is read, but nothing produces it");
}

void Importer::define(Scope& scope, const std::string& name, ir::ValueId value) {
  scope.values[name] = value;
  if (value >= 0 && !graph.is_input(value)) rename(value, scope.prefix + name);
}

std::vector<ir::ValueId> Importer::emit(ir::Op op, std::vector<ir::ValueId> inputs, int count,
                                        ir::Attributes attributes, const std::vector<ir::ValueType>& wanted,
                                        const std::string& name) {
  ir::Node node{op, std::move(inputs), {}, ir::complete(op, std::move(attributes)), name};
  auto inferred = ir::infer(graph, node, wanted);
  if (!inferred.ok()) {
    Error& error = inferred.error();
    fail(error.what + (error.why.empty() ? "" : ": " + error.why), error.fix);
  }
  std::vector<ir::ValueType> types = std::move(*inferred);
  if (static_cast<size_t>(count) > types.size())
    fail("operator " + std::string(ir::name(op)) + " has no result " + std::to_string(count - 1));
  types.resize(static_cast<size_t>(count));

  bool constant = true;
  bool small = true;
  for (ir::ValueId id : node.inputs) {
    if (id == ir::kNoValue) continue;
    constant = constant && graph.is_constant(id);
    small = small && bytes_of(graph, id) <= 8 * options_.fold_limit_bytes;
  }
  int64_t output_bytes = 0;
  for (const auto& type : types) {
    const int64_t bytes = bytes_of(type.dtype, ir::extents(type.shape));
    small = small && bytes <= options_.fold_limit_bytes;
    if (small) output_bytes += bytes;
  }
  if (op == ir::Op::matmul && constant && small) {
    const auto a = graph.extents(node.inputs[0]);
    const int64_t inner = node.attributes.integer("trans_a") ? a[a.size() - 2] : a.back();
    small = output_bytes < kMostFoldedProducts / std::max<int64_t>(inner, 1);
  }
  if (constant && small) {
    if (auto folded = fold(graph, node, types)) {
      std::vector<ir::ValueId> out;
      for (auto& tensor : *folded) out.push_back(add_constant(name, std::move(tensor)));
      return out;
    }
  }
  const auto id = static_cast<ir::NodeId>(graph.nodes.size());
  for (auto& type : types) {
    node.outputs.push_back(static_cast<ir::ValueId>(graph.values.size()));
    graph.values.push_back({unique_name(name), type.dtype, std::move(type.shape), {}, std::nullopt, id});
  }
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().outputs;
}

ir::HostTensor Importer::constant_of(ir::ValueId wanted, const std::string& role) {
  // Depth first over what it needs; the chain is bounded so that a hostile model cannot exhaust the stack.
  struct Evaluate {
    Importer& self;
    const std::string& role;
    ir::HostTensor operator()(ir::ValueId id, int depth) {
      if (self.graph.is_constant(id)) return *self.graph.value(id).constant;
      const std::string name = self.graph.value(id).name;
      if (self.graph.value(id).producer == ir::kNoNode)
        fail(role + " depends on the value of input '" + name + "', which is not known at import",
             "give the value of '" + name + "' with the data; its shape alone is not enough");
      if (depth > kDeepestForcedChain || bytes_of(self.graph, id) > kForcedLimitBytes)
        fail(role + " depends on '" + name + "', which is too large to compute at import");
      const ir::Node node = self.graph.node(self.graph.value(id).producer);
      for (ir::ValueId input : node.inputs) {
        if (input == ir::kNoValue || self.graph.is_constant(input)) continue;
        self.graph.value(input).constant = (*this)(input, depth + 1);
      }
      std::vector<ir::ValueType> types;
      for (ir::ValueId output : node.outputs)
        types.push_back({self.graph.value(output).dtype, self.graph.value(output).shape});
      auto folded = fold(self.graph, node, types);
      if (!folded) fail(role + " depends on '" + name + "', which cannot be computed at import");
      for (size_t i = 0; i < node.outputs.size(); ++i)
        if (node.outputs[i] == id) return (*folded)[i];
      fail(role + " depends on '" + name + "', which cannot be computed at import");
    }
  };
  // Temporary constants on the way stay: the nodes that made them are dead code or harmless duplicates of
  // what is folded.
  const size_t before = graph.values.size();
  ir::HostTensor out = Evaluate{*this, role}(wanted, 0);
  for (size_t i = 0; i < before; ++i)
    if (graph.values[i].producer != ir::kNoNode) graph.values[i].constant.reset();
  return out;
}

void Importer::note_unsupported(const onnx::NodeProto& node, const Scope& scope, std::string why) {
  const std::string domain = canonical_domain(node.domain());
  unsupported_.push_back({(domain.empty() ? "" : domain + "::") + node.op_type(),
                          scope.prefix + node_name(node), std::move(why)});
}

void Importer::poison_outputs(const onnx::NodeProto& node, Scope& scope) {
  for (const auto& name : node.output())
    if (!name.empty()) scope.values[name] = kPoison;
}

void Importer::call_function(const Function& function, const onnx::NodeProto& node, Scope& scope, int depth) {
  if (depth > kDeepestNesting)
    fail("functions call each other more than " + std::to_string(kDeepestNesting) + " deep");
  const onnx::FunctionProto& proto = *function.proto;
  Scope inner;
  inner.opsets = &function.opsets;
  inner.prefix = scope.prefix + node_name(node) + "/";
  if (node.input_size() > proto.input_size() || node.output_size() > proto.output_size())
    fail("the call gives " + std::to_string(node.input_size()) + " inputs and takes " +
         std::to_string(node.output_size()) + " outputs, the function has " +
         std::to_string(proto.input_size()) + " and " + std::to_string(proto.output_size()));
  for (int i = 0; i < proto.input_size(); ++i) {
    const bool given = i < node.input_size() && !node.input(i).empty();
    inner.values[proto.input(i)] = given ? lookup(scope, node.input(i)) : ir::kNoValue;
  }
  std::map<std::string, const onnx::AttributeProto*> attributes;
  for (const auto& [name, attribute] : function.defaults) attributes[name] = &attribute;
  for (const auto& attribute : node.attribute()) {
    const onnx::AttributeProto* given = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      given = nullptr;
      if (scope.call_attributes)
        if (auto found = scope.call_attributes->find(attribute.ref_attr_name());
            found != scope.call_attributes->end())
          given = found->second;
    }
    if (given) attributes[attribute.name()] = given;
  }
  inner.call_attributes = &attributes;
  std::vector<std::string> outputs;
  for (int i = 0; i < node.output_size(); ++i)
    if (!node.output(i).empty()) outputs.push_back(proto.output(i));
  walk_nodes(proto.node(), outputs, inner, depth + 1);
  for (int i = 0; i < node.output_size(); ++i)
    if (!node.output(i).empty()) define(scope, node.output(i), lookup(inner, proto.output(i)));
}

void Importer::walk(const onnx::GraphProto& branch, Scope& scope, int depth) {
  if (depth > kDeepestNesting)
    fail("subgraphs are nested more than " + std::to_string(kDeepestNesting) + " deep");
  for (const auto& tensor : branch.initializer()) scope.initializers[tensor.name()] = &tensor;
  std::vector<std::string> outputs;
  for (const auto& output : branch.output()) outputs.push_back(output.name());
  walk_nodes(branch.node(), outputs, scope, depth);
}

void Importer::walk_nodes(const Nodes& nodes, const std::vector<std::string>& outputs, Scope& scope,
                          int depth) {
  const auto sorted = sorted_nodes(nodes, [&](const std::string& name) { return resolvable(scope, name); });
  for (const auto* node : sorted)
    for (const auto& name : node->output())
      if (!name.empty() && (scope.values.count(name) || scope.initializers.count(name)))
        fail(node_label(*node) + " produces '" + name + "', which is already an input or an initialiser");
  for (const auto* node : needed_nodes(sorted, outputs)) walk_node(*node, scope, depth);
}

void Importer::walk_node(const onnx::NodeProto& node, Scope& scope, int depth) {
  if (++walked_nodes_ > kMostNodes)
    fail("the model has more than " + std::to_string(kMostNodes) +
         " nodes after its functions are written out");
  try {
    if (const Function* function = functions_.find(node)) return call_function(*function, node, scope, depth);
    const std::string domain = canonical_domain(node.domain());
    const OperatorRow* row = find_operator(domain, node.op_type());
    if (row == nullptr) unsupported("the operator is not covered");
    auto version = scope.opsets->find(domain);
    if (version == scope.opsets->end() && domain.empty())
      fail("the model names no operator set version for the default domain");
    bool poisoned = false;
    for (const auto& name : names_read(node)) poisoned = lookup(scope, name) == kPoison || poisoned;
    if (poisoned) return poison_outputs(node, scope);
    Lowering lowering(*this, node, scope, version == scope.opsets->end() ? 1 : version->second, depth);
    row->lower(lowering);
    for (const auto& name : node.output())
      if (!name.empty() && !scope.values.count(name)) unsupported("result '" + name + "' is not covered");
  } catch (Unsupported& found) {
    note_unsupported(node, scope, std::move(found.why));
    poison_outputs(node, scope);
  } catch (Failure& failure) {
    if (failure.error.where.empty()) {
      const std::string shapes = describe_inputs(scope, node, graph);
      failure.error.where.push_back(node_label(node) + (shapes.empty() ? "" : " (" + shapes + ")"));
    }
    throw;
  }
}

void Importer::report_unsupported() const {
  std::map<std::string, std::vector<const UnsupportedNode*>> groups;
  for (const auto& node : unsupported_) groups[node.op].push_back(&node);
  Error error = user_error(std::string(kUnsupported) + " " + file_.path);
  for (const auto& [op, nodes] : groups) {
    std::map<std::string, std::vector<std::string>> reasons;
    for (const auto* node : nodes) reasons[node->why].push_back(node->name);
    for (const auto& [why, names] : reasons) {
      std::string line = op + " * " + std::to_string(names.size()) + ": " + why + " (";
      for (size_t i = 0; i < names.size(); ++i) line += (i ? ", " : "") + names[i];
      error.where.push_back(line + ")");
    }
  }
  error.why = std::to_string(unsupported_.size()) + (unsupported_.size() == 1 ? " node is" : " nodes are") +
              " not supported";
  throw Failure{std::move(error)};
}

ir::Graph Importer::run() {
  const onnx::GraphProto& proto = file_.proto->graph();
  graph.name = proto.name();
  Scope scope;
  scope.opsets = &file_.opsets;
  for (const auto& tensor : proto.initializer()) {
    if (tensor.name().empty()) fail("an initialiser has no name");
    if (!scope.initializers.emplace(tensor.name(), &tensor).second)
      fail("two initialisers are called '" + tensor.name() + "'");
  }
  for (const auto& sparse : proto.sparse_initializer())
    unsupported_.push_back({"sparse initialiser", sparse.values().name(), "sparse tensors are not covered"}),
        scope.values[sparse.values().name()] = kPoison;
  if (proto.output_size() == 0) fail("the graph has no outputs");
  bind_inputs(scope);
  std::vector<std::string> outputs;
  std::set<std::string> seen;
  for (const auto& output : proto.output()) {
    if (!seen.insert(output.name()).second) fail("two graph outputs are called '" + output.name() + "'");
    outputs.push_back(output.name());
  }
  walk_nodes(proto.node(), outputs, scope, 0);
  finish(scope);
  return std::move(graph);
}

void Importer::finish(Scope& scope) {
  for (const auto& output : file_.proto->graph().output()) {
    if (!resolvable(scope, output.name())) fail("output '" + output.name() + "' is produced by nothing");
    ir::ValueId id = kPoison;
    try {
      id = lookup(scope, output.name());
    } catch (Unsupported& found) {
      unsupported_.push_back({"initialiser", output.name(), std::move(found.why)});
    }
    graph.outputs.push_back(id);
    graph.output_names.push_back(output.name());
  }
  if (!unsupported_.empty()) report_unsupported();
  if (!unbound_.empty()) report_unbound();
  for (ir::ValueId id : graph.outputs)
    if (id < 0) fail("an output is an absent optional value");
  graph = ir::without_dead_code(graph);
  if (auto status = ir::verify(graph); !status.ok()) throw Failure{std::move(status).error()};
}

Result<ir::Graph> import_onnx(const std::string& path, const Options& options) {
  try {
    return Importer(must(read_model(path)), options).run();
  } catch (Failure& failure) {
    Error& error = failure.error;
    if (error.what.empty()) error.what = "cannot import " + path;
    return std::move(error);
  } catch (Unsupported& found) {
    return user_error(std::string(kUnsupported) + " " + path, std::move(found.why));
  } catch (std::bad_alloc&) {
    return user_error("cannot import " + path, "a tensor of the model does not fit in memory");
  }
}

bool is_unsupported(const Error& error) {
  return error.what.compare(0, kUnsupported.size(), kUnsupported) == 0;
}

}  // namespace rtx::import

#include "base/assert.h"
#include "reference/evaluator.h"

namespace rtx::reference {
namespace {

Status check_inputs(const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs) {
  if (auto symbols = graph.unbound_symbols(); !symbols.empty()) {
    return user_error("cannot interpret the graph", "dimension " + symbols[0].name + " has no value");
  }
  if (inputs.size() != graph.inputs.size()) {
    return user_error("cannot interpret the graph",
                      "it has " + std::to_string(graph.inputs.size()) + " inputs, " + std::to_string(inputs.size()) + " were given");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Value& value = graph.value(graph.inputs[i]);
    if (inputs[i].dtype() == value.dtype && inputs[i].extents() == ir::extents(value.shape)) continue;
    return user_error("input " + value.name + " does not fit",
                      "found " + std::string(ir::name(inputs[i].dtype())) + ir::text(inputs[i].extents()) + ", expected " +
                          std::string(ir::name(value.dtype)) + ir::text(value.shape));
  }
  return success();
}

// Computes the nodes in order. Constants are converted at their first use; unless everything is wanted, a value is dropped after
// its last reader, so that a model needs the memory of its widest point.
class Interpreter {
 public:
  Interpreter(const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs, const Options& options, bool keep_all)
      : graph_(graph), options_(options), keep_all_(keep_all), values_(graph.values.size()), present_(graph.values.size(), false),
        readers_left_(graph.values.size(), 0) {
    for (const auto& node : graph.nodes) {
      for (ir::ValueId id : node.inputs) {
        if (id != ir::kNoValue) ++readers_left_[index(id)];
      }
    }
    for (ir::ValueId id : graph.outputs) ++readers_left_[index(id)];
    for (size_t i = 0; i < inputs.size(); ++i) put(graph.inputs[i], from_host(inputs[i]));
  }

  Status run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto id = static_cast<ir::NodeId>(n);
      if (auto status = compute(id); !status.ok()) return std::move(status).error().in(graph_.describe(id));
    }
    return success();
  }

  std::vector<RefTensor> outputs() {
    std::vector<RefTensor> out;
    for (ir::ValueId id : graph_.outputs) {
      const RefTensor& value = get(id);
      if (--readers_left_[index(id)] == 0) {
        out.push_back(std::move(values_[index(id)]));
      } else {
        out.push_back(value);
      }
    }
    return out;
  }

  std::vector<RefTensor> all() {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (graph_.values[i].constant) get(static_cast<ir::ValueId>(i));
    }
    return std::move(values_);
  }

 private:
  static size_t index(ir::ValueId id) { return static_cast<size_t>(id); }

  void put(ir::ValueId id, RefTensor tensor) {
    values_[index(id)] = std::move(tensor);
    present_[index(id)] = true;
  }

  const RefTensor& get(ir::ValueId id) {
    if (!present_[index(id)]) {
      RTX_ASSERT(graph_.value(id).constant.has_value(), "a value is computed before it is read");
      put(id, from_host(*graph_.value(id).constant));
    }
    return values_[index(id)];
  }

  Status compute(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    Call call{node, {}, {}, options_.threads};
    for (ir::ValueId input : node.inputs) call.inputs.push_back(input == ir::kNoValue ? nullptr : &get(input));
    for (ir::ValueId output : node.outputs) call.outputs.push_back({graph_.value(output).dtype, graph_.extents(output)});
    RTX_TRY(auto results, evaluate_call(call));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (options_.round_each_op) round_all(results[i]);
      put(node.outputs[i], std::move(results[i]));
    }
    for (ir::ValueId input : node.inputs) {
      if (input == ir::kNoValue || --readers_left_[index(input)] > 0 || keep_all_) continue;
      values_[index(input)] = {};
      present_[index(input)] = false;
    }
    return success();
  }

  const ir::Graph& graph_;
  const Options& options_;
  bool keep_all_;
  std::vector<RefTensor> values_;
  std::vector<bool> present_;
  std::vector<int> readers_left_;
};

}  // namespace

Result<Results> evaluate_call(const Call& call) {
  switch (ir::info(call.node.op).op_class) {
    case ir::OpClass::pointwise: return evaluate_pointwise(call);
    case ir::OpClass::movement: return call.node.op == ir::Op::rotary ? evaluate_rotary(call) : evaluate_movement(call);
    case ir::OpClass::reduction: return evaluate_reduction(call);
    case ir::OpClass::scan: return evaluate_scan(call);
    case ir::OpClass::normalization: return evaluate_normalization(call);
    case ir::OpClass::contraction: return evaluate_matmul(call);
    case ir::OpClass::attention: return evaluate_attention(call);
  }
  return error_of(ErrorKind::internal, "operator without an evaluator");
}

Result<std::vector<RefTensor>> run(const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs, const Options& options) {
  RTX_CHECK(check_inputs(graph, inputs));
  Interpreter interpreter(graph, inputs, options, false);
  RTX_CHECK(interpreter.run());
  return interpreter.outputs();
}

Result<std::vector<RefTensor>> run_all(const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs, const Options& options) {
  RTX_CHECK(check_inputs(graph, inputs));
  Interpreter interpreter(graph, inputs, options, true);
  RTX_CHECK(interpreter.run());
  return interpreter.all();
}

Result<std::vector<ir::HostTensor>> evaluate(const ir::Graph& graph, const ir::Node& node, const std::vector<const ir::HostTensor*>& inputs) {
  std::vector<RefTensor> converted;
  converted.reserve(inputs.size());
  Call call{node, {}, {}, 1};
  for (const auto* input : inputs) {
    converted.push_back(input == nullptr ? RefTensor{} : from_host(*input));
    call.inputs.push_back(input == nullptr ? nullptr : &converted.back());
  }
  for (ir::ValueId output : node.outputs) call.outputs.push_back({graph.value(output).dtype, graph.extents(output)});
  RTX_TRY(auto results, evaluate_call(call));
  std::vector<ir::HostTensor> out;
  for (size_t i = 0; i < node.outputs.size(); ++i) out.push_back(to_host(results[i]));
  return out;
}

}  // namespace rtx::reference

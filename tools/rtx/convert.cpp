#include "rtx/convert.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace rtx::tools {

namespace {

// Rebuilds a graph node by node with other dtypes: the value map goes from old ids to new ones.
class Converter {
 public:
  Converter(const ir::Graph& from, ir::DType dtype, std::set<std::string> keep) : from_(from), dtype_(dtype), keep_(std::move(keep)) {}

  Result<ir::Graph> run() {
    to_.name = from_.name;
    to_.specialized = from_.specialized;
    map_.assign(from_.values.size(), ir::kNoValue);
    for (const auto id : from_.inputs) {
      const auto& value = from_.value(id);
      map_[at(id)] = to_.add_input(value.name, value.dtype, value.shape, value.layout);
    }
    for (const auto& node : from_.nodes) RTX_CHECK(convert(node));
    for (size_t i = 0; i < from_.outputs.size(); ++i) {
      const auto id = from_.outputs[i];
      to_.outputs.push_back(in(id, from_.value(id).dtype));
      to_.output_names.push_back(from_.output_name(i));
    }
    to_.states = from_.states;
    for (auto& state : to_.states) state.input = map_[at(state.input)], state.output = map_[at(state.output)];
    return std::move(to_);
  }

 private:
  static size_t at(ir::ValueId id) { return static_cast<size_t>(id); }

  // A finite constant stays finite: the lowest f32 that masks are filled with would be an infinity, and 0 times it NaN.
  static double in_range(double value, ir::DType dtype) {
    const double largest = dtype == ir::DType::f16 ? 65504.0 : dtype == ir::DType::bf16 ? 0x1.fep127 : dtype == ir::DType::f32 ? 0x1.fffffep127 : INFINITY;
    return std::isfinite(value) ? std::clamp(value, -largest, largest) : value;
  }

  // The converted value as `dtype`; constants convert at once, others through a cast (one per value and type).
  ir::ValueId in(ir::ValueId id, ir::DType dtype) {
    if (id == ir::kNoValue) return ir::kNoValue;
    const auto& old = from_.value(id);
    if (old.constant) {
      const auto key = std::pair(id, dtype);
      if (auto known = casts_.find(key); known != casts_.end()) return known->second;
      ir::HostTensor tensor = *old.constant;
      if (tensor.dtype() != dtype) {
        ir::HostTensor other(dtype, tensor.extents());
        for (int64_t i = 0; i < tensor.count(); ++i) other.set_double(i, in_range(tensor.get_double(i), dtype));
        tensor = std::move(other);
      }
      return casts_[key] = to_.add_constant(to_.fresh_name(old.name), std::move(tensor));
    }
    const ir::ValueId now = map_[at(id)];
    if (to_.value(now).dtype == dtype) return now;
    const auto key = std::pair(id, dtype);
    if (auto known = casts_.find(key); known != casts_.end()) return known->second;
    return casts_[key] = to_.add_node_as(ir::Op::cast, {now}, dtype, to_.value(now).shape, {}, old.name + "/cast");
  }

  Status convert(const ir::Node& node) {
    const bool kept = keep_.count(node.name) != 0;
    seen_.insert(node.name);
    const auto target = [&](ir::DType old) { return !ir::is_floating(old) || old == ir::DType::f64 ? old : kept ? ir::DType::f32 : dtype_; };
    std::vector<ir::ValueId> inputs;
    for (const auto input : node.inputs) inputs.push_back(input == ir::kNoValue ? input : in(input, target(from_.value(input).dtype)));
    const auto& result = from_.value(node.outputs[0]);
    RTX_TRY(const ir::ValueId first, to_.try_add_node_as(node.op, inputs, target(result.dtype), result.shape, node.attributes, node.name));
    const auto& made = to_.node(to_.value(first).producer);
    for (size_t i = 0; i < node.outputs.size() && i < made.outputs.size(); ++i) map_[at(node.outputs[i])] = made.outputs[i];
    if (made.outputs.size() < node.outputs.size())
      return user_error("--dtype cannot convert " + node.name, "its further outputs are not kept", "name the node with --keep-f32, or leave --dtype out");
    return success();
  }

 public:
  std::vector<std::string> unknown_kept() const {
    std::vector<std::string> out;
    for (const auto& name : keep_)
      if (seen_.count(name) == 0) out.push_back(name);
    return out;
  }

 private:
  const ir::Graph& from_;
  ir::DType dtype_;
  std::set<std::string> keep_, seen_;
  ir::Graph to_;
  std::vector<ir::ValueId> map_;
  std::map<std::pair<ir::ValueId, ir::DType>, ir::ValueId> casts_;
};

}  // namespace

Result<ir::Graph> convert_floats(ir::Graph graph, const std::string& dtype, const std::vector<std::string>& keep_f32) {
  if (dtype == "keep") return graph;
  const auto wanted = ir::dtype_from_name(dtype);
  if (!wanted || (*wanted != ir::DType::f32 && *wanted != ir::DType::f16 && *wanted != ir::DType::bf16))
    return user_error("unknown --dtype '" + dtype + "'", "it is one of keep, f32, f16, bf16");
  Converter converter(graph, *wanted, {keep_f32.begin(), keep_f32.end()});
  RTX_TRY(ir::Graph out, converter.run());
  if (const auto unknown = converter.unknown_kept(); !unknown.empty())
    return user_error("--keep-f32 names no node of this model: " + unknown.front(), {}, "`rtx explain MODEL` lists the nodes");
  return out;
}

Status declare_states(ir::Graph& graph, const std::vector<std::string>& arguments) {
  for (const auto& argument : arguments) {
    const auto equal = argument.find('='), colon = argument.rfind(':');
    if (equal == std::string::npos || colon == std::string::npos || colon < equal)
      return user_error("cannot understand --state " + argument, "the form is IN=OUT:MAX");
    const std::string input = argument.substr(0, equal), output = argument.substr(equal + 1, colon - equal - 1), maximum = argument.substr(colon + 1);
    if (maximum.empty() || maximum.size() > 15 || maximum.find_first_not_of("0123456789") != std::string::npos)
      return user_error("cannot understand --state " + argument, "'" + maximum + "' is not a capacity");
    ir::State state;
    state.name = input;
    state.maximum = std::stoll(maximum);
    for (const auto id : graph.inputs)
      if (graph.value(id).name == input) state.input = id;
    for (size_t i = 0; i < graph.outputs.size(); ++i)
      if (graph.output_name(i) == output) state.output = graph.outputs[i];
    if (state.input == ir::kNoValue) return user_error("--state " + argument, "the model has no input " + input);
    if (state.output == ir::kNoValue) return user_error("--state " + argument, "the model has no output " + output);
    const auto in = graph.extents(state.input), out = graph.extents(state.output);
    if (in != out || graph.value(state.input).dtype != graph.value(state.output).dtype)
      return user_error("--state " + argument,
                        input + " is " + ir::text(in) + " and " + output + " is " + ir::text(out) + "; a state keeps one shape from run to run",
                        "export the model with a cache of fixed capacity, updated in place (ScatterND, TensorScatter)");
    if (std::find(in.begin(), in.end(), state.maximum) == in.end())
      return user_error("--state " + argument, "no dimension of " + input + " " + ir::text(in) + " has " + maximum + " elements");
    state.axis = static_cast<int>(std::find(in.begin(), in.end(), state.maximum) - in.begin());
    graph.states.push_back(std::move(state));
  }
  return success();
}

}  // namespace rtx::tools

#include "ir/verify.h"

#include <algorithm>
#include <set>

#include "ir/infer.h"

namespace rtx::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  Status run() {
    RTX_CHECK(inputs());
    RTX_CHECK(values());
    RTX_CHECK(nodes());
    RTX_CHECK(outputs());
    RTX_CHECK(states());
    return specialized();
  }

 private:
  static Error broken(std::string why) { return user_error("graph does not hold together", std::move(why)); }
  bool exists(ValueId id) const { return id >= 0 && static_cast<size_t>(id) < graph_.values.size(); }
  std::string shown(ValueId id) const { return "value " + graph_.value(id).name; }

  Status inputs() {
    std::set<ValueId> seen;
    for (ValueId id : graph_.inputs) {
      if (!exists(id)) return broken("an input refers to value " + std::to_string(id) + ", which does not exist");
      if (!seen.insert(id).second) return broken(shown(id) + " is an input twice");
      if (graph_.value(id).constant || graph_.value(id).producer != kNoNode) {
        return broken(shown(id) + " is an input and also has a constant or a producer");
      }
    }
    return success();
  }

  Status values() {
    std::set<std::string_view> names;
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      const auto id = static_cast<ValueId>(i);
      if (value.name.empty()) return broken("value " + std::to_string(id) + " has no name");
      if (!names.insert(value.name).second) return broken("two values are called " + value.name);
      if (value.constant) {
        if (value.producer != kNoNode) return broken(shown(id) + " is a constant with a producer");
        if (value.constant->dtype() != value.dtype || to_shape(value.constant->extents()) != value.shape) {
          return broken("constant " + value.name + " holds a tensor of another type");
        }
      } else if (value.producer == kNoNode) {
        if (!graph_.is_input(id)) return broken(shown(id) + " has no source: no input, no constant, no producer");
      } else if (value.producer < 0 || static_cast<size_t>(value.producer) >= graph_.nodes.size()) {
        return broken(shown(id) + " names node " + std::to_string(value.producer) + ", which does not exist");
      }
      if (is_bound(value.shape)) {
        auto count = checked_element_count(extents(value.shape));
        if (!count.ok()) return broken(shown(id) + ": " + count.error().what);
      }
      RTX_CHECK(layout(id));
    }
    return success();
  }

  Status layout(ValueId id) {
    const Layout& layout = graph_.value(id).layout;
    if (layout.dense()) return success();
    const Shape& shape = graph_.value(id).shape;
    if (!graph_.is_input(id) && !graph_.is_output(id)) return broken(shown(id) + " is strided but neither input nor output");
    if (layout.strides.empty()) return layout.offset > 0 ? success() : Status(broken(shown(id) + " starts before its buffer"));
    if (layout.strides.size() != shape.size()) {
      return broken(shown(id) + " of rank " + std::to_string(shape.size()) + " has " + std::to_string(layout.strides.size()) + " strides");
    }
    if (!is_bound(shape)) return success();
    int64_t lowest = layout.offset;
    int64_t highest = layout.offset;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t reach = 0;
      int64_t& end = layout.strides[d] < 0 ? lowest : highest;
      const int64_t last = std::max<int64_t>(extent(shape[d]) - 1, 0);
      if (__builtin_mul_overflow(last, layout.strides[d], &reach) || __builtin_add_overflow(end, reach, &end)) {
        return broken(shown(id) + " reaches past 2^63 elements with strides " + text(layout.strides));
      }
    }
    if (lowest < 0) return broken(shown(id) + " starts before its buffer");
    if (!graph_.is_input(id)) return distinct_elements(id);
    return success();
  }

  // No two elements of an output may share a place: sorted by stride, each stride passes what the smaller ones cover.
  Status distinct_elements(ValueId id) {
    const Layout& layout = graph_.value(id).layout;
    const auto sizes = graph_.extents(id);
    std::vector<std::pair<int64_t, int64_t>> steps;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 0) return success();
      if (sizes[d] > 1) steps.emplace_back(std::abs(layout.strides[d]), sizes[d]);
    }
    std::sort(steps.begin(), steps.end());
    int64_t covered = 0;
    for (const auto& [stride, size] : steps) {
      if (stride <= covered) return broken("output " + graph_.value(id).name + " has overlapping elements");
      covered += stride * (size - 1);
    }
    return success();
  }

  Status nodes() {
    std::vector<bool> defined(graph_.values.size(), false);
    for (size_t i = 0; i < graph_.values.size(); ++i) defined[i] = graph_.values[i].producer == kNoNode;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const auto id = static_cast<NodeId>(n);
      if (auto status = node(id, defined); !status.ok()) return std::move(status).error().in(where(id));
    }
    return success();
  }

  std::string where(NodeId id) const {
    const Node& node = graph_.node(id);
    return "node " + std::to_string(id) + (node.name.empty() ? "" : " " + node.name) + ": " + std::string(name(node.op));
  }

  Status node(NodeId id, std::vector<bool>& defined) {
    const Node& node = graph_.node(id);
    for (ValueId input : node.inputs) {
      if (input == kNoValue) continue;
      if (!exists(input)) return broken("it reads value " + std::to_string(input) + ", which does not exist");
      if (!defined[static_cast<size_t>(input)]) return broken("it reads " + shown(input) + " before it is made");
    }
    RTX_CHECK(node_outputs(id, defined));
    std::vector<ValueType> written;
    for (ValueId output : node.outputs) written.push_back({graph_.value(output).dtype, graph_.value(output).shape});
    RTX_TRY(auto types, infer(graph_, node, written));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (types[i].dtype == written[i].dtype && types[i].shape == written[i].shape) continue;
      return broken(shown(node.outputs[i]) + " is recorded as " + std::string(name(written[i].dtype)) + text(written[i].shape) +
                    ", its node gives " + std::string(name(types[i].dtype)) + text(types[i].shape));
    }
    return success();
  }

  Status node_outputs(NodeId id, std::vector<bool>& defined) {
    const Node& node = graph_.node(id);
    if (node.outputs.empty()) return broken("it has no result");
    if (node.outputs.size() > static_cast<size_t>(info(node.op).max_outputs)) return broken("it has too many results");
    for (ValueId output : node.outputs) {
      if (!exists(output)) return broken("it makes value " + std::to_string(output) + ", which does not exist");
      if (graph_.value(output).producer != id) return broken(shown(output) + " does not name it as its producer");
      if (defined[static_cast<size_t>(output)]) return broken(shown(output) + " is made twice");
      defined[static_cast<size_t>(output)] = true;
    }
    return success();
  }

  Status outputs() {
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const NodeId producer = graph_.values[i].producer;
      if (producer == kNoNode) continue;
      const auto& made = graph_.node(producer).outputs;
      if (std::find(made.begin(), made.end(), static_cast<ValueId>(i)) == made.end()) {
        return broken(shown(static_cast<ValueId>(i)) + " names a producer that does not make it");
      }
    }
    for (ValueId id : graph_.outputs) {
      if (!exists(id)) return broken("an output refers to value " + std::to_string(id) + ", which does not exist");
    }
    if (!graph_.output_names.empty() && graph_.output_names.size() != graph_.outputs.size()) {
      return broken("there are " + std::to_string(graph_.outputs.size()) + " outputs and " + std::to_string(graph_.output_names.size()) + " output names");
    }
    return success();
  }

  Status states() {
    std::set<ValueId> buffers;
    for (const auto& state : graph_.states) {
      if (auto status = check_state(state, buffers); !status.ok()) return std::move(status).error().in("state " + state.name);
    }
    return success();
  }

  Status check_state(const State& state, std::set<ValueId>& buffers) {
    if (!exists(state.input) || !graph_.is_input(state.input)) return broken("what it starts from is not a graph input");
    if (!exists(state.output) || !graph_.is_output(state.output)) return broken("what replaces it is not a graph output");
    const Value& before = graph_.value(state.input);
    const Value& after = graph_.value(state.output);
    if (!buffers.insert(state.input).second || !buffers.insert(state.output).second) return broken("two states share a value");
    if (before.dtype != after.dtype) return broken("its element type changes");
    if (before.shape.size() != after.shape.size()) return broken("its rank changes");
    const auto rank = static_cast<int>(before.shape.size());
    if (state.axis < -1 || state.axis >= rank) return broken("axis " + std::to_string(state.axis) + " is outside its rank");
    for (int d = 0; d < rank; ++d) {
      const Dim& left = before.shape[static_cast<size_t>(d)];
      const Dim& right = after.shape[static_cast<size_t>(d)];
      if (d != state.axis && !(left == right)) return broken("its shape changes along axis " + std::to_string(d));
      if (d != state.axis) continue;
      for (const Dim& size : {left, right}) {
        if (size.is_constant() && extent(size) > state.maximum) return broken("its size exceeds the maximum " + std::to_string(state.maximum));
      }
    }
    return reads_precede_write(state);
  }

  // The buffer is one: nothing that depends on the new content may still read the old one.
  Status reads_precede_write(const State& state) {
    const NodeId writer = graph_.value(state.output).producer;
    if (writer == kNoNode) return success();
    std::vector<bool> later(graph_.values.size(), false);
    later[static_cast<size_t>(state.output)] = true;
    for (const auto& node : graph_.nodes) {
      const bool depends = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return id != kNoValue && later[static_cast<size_t>(id)]; });
      if (!depends) continue;
      if (std::find(node.inputs.begin(), node.inputs.end(), state.input) != node.inputs.end()) {
        return broken("its old content is read after the new one is written");
      }
      for (ValueId id : node.outputs) later[static_cast<size_t>(id)] = true;
    }
    return success();
  }

  Status specialized() {
    std::set<std::string_view> names;
    for (ValueId id : graph_.inputs) names.insert(graph_.value(id).name);
    for (const auto& input : graph_.specialized) {
      if (!names.insert(input.name).second) return broken("specialised input " + input.name + " is also an input, or there twice");
    }
    return success();
  }

  const Graph& graph_;
};

}  // namespace

Status verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace rtx::ir

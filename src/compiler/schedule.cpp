#include "compiler/schedule.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/assert.h"

namespace rtx::compiler {

namespace {

using bundle::Slot;
using bundle::SlotKind;

class Scheduler {
 public:
  Scheduler(const ir::Graph& graph, const fuse::Partition& partition, const std::vector<Scheduled>& chosen, bundle::Plan* plan)
      : graph_(graph), partition_(partition), chosen_(chosen), plan_(*plan), root_(graph.values.size()), slot_(graph.values.size()) {}

  void run() {
    find_roots();
    describe_interface();
    place_values();
    emit_steps();
    emit_copies();
  }

 private:
  // An alias (a reshape outside regions) shares its input's buffer: values are grouped under the value that owns the buffer.
  void find_roots() {
    for (size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<ir::ValueId>(v);
    for (const ir::NodeId id : partition_.aliases) {
      const auto& node = graph_.node(id);
      root_[index(node.outputs[0])] = root_[index(node.inputs[0])];
    }
  }

  static size_t index(ir::ValueId value) { return static_cast<size_t>(value); }
  ir::ValueId root(ir::ValueId value) const { return root_[index(value)]; }
  int64_t bytes(ir::ValueId value) const { return ir::element_count(graph_.extents(value)) * ir::bytes_of(graph_.value(value).dtype); }

  bundle::TensorInfo describe(ir::ValueId value, std::string name) const {
    const auto& v = graph_.value(value);
    return {std::move(name), v.dtype, graph_.extents(value), v.layout.strides, v.layout.offset};
  }

  void describe_interface() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      plan_.inputs.push_back(describe(graph_.inputs[i], graph_.value(graph_.inputs[i]).name));
      slot_[index(graph_.inputs[i])] = Slot{SlotKind::input, static_cast<int64_t>(i), 0};
      has_slot_.insert(graph_.inputs[i]);
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) plan_.outputs.push_back(describe(graph_.outputs[i], graph_.output_name(i)));
    for (const auto& state : graph_.states) {
      bundle::StateInfo info;
      info.info = describe(state.input, state.name);
      info.axis = state.axis;
      for (size_t i = 0; i < graph_.inputs.size(); ++i)
        if (graph_.inputs[i] == state.input) info.input = static_cast<int>(i);
      for (size_t i = 0; i < graph_.outputs.size(); ++i)
        if (graph_.outputs[i] == state.output && info.output < 0) info.output = static_cast<int>(i);
      state_outputs_.insert(info.output);
      plan_.states.push_back(std::move(info));
    }
    for (const auto& specialized : graph_.specialized) {
      bundle::SpecializedValue value;
      value.info = {specialized.name, specialized.value.dtype(), specialized.value.extents(), {}, 0};
      value.bytes.assign(specialized.value.bytes(), specialized.value.bytes() + specialized.value.byte_size());
      plan_.specialized.push_back(std::move(value));
    }
  }

  Slot constant_slot(ir::ValueId value) {
    if (auto known = constants_.find(value); known != constants_.end()) return {SlotKind::constant, known->second, 0};
    const auto& tensor = *graph_.value(value).constant;
    auto keep = std::make_shared<ir::HostTensor>(tensor);
    bundle::Constant constant;
    constant.info = {graph_.value(value).name, tensor.dtype(), tensor.extents(), {}, 0};
    constant.bytes = keep->bytes();
    constant.byte_size = keep->byte_size();
    constant.owner = std::shared_ptr<const void>(keep, keep.get());
    plan_.constants.push_back(std::move(constant));
    constants_[value] = static_cast<int64_t>(plan_.constants.size()) - 1;
    return {SlotKind::constant, constants_[value], 0};
  }

  // Where a value that a region or copy touches lives.
  Slot slot(ir::ValueId value) {
    const ir::ValueId owner = root(value);
    if (graph_.is_constant(owner)) return constant_slot(owner);
    RTX_ASSERT(has_slot_.count(owner) != 0, "every value has a slot before it is used");
    return slot_[index(owner)];
  }

  // The region that may write what replaces a state where the state stands: it begins with the copy, and nothing reads the old value
  // behind it. -1: none.
  int writer_in_place(const ir::State& state) const {
    const ir::ValueId old = root(state.input), fresh = root(state.output);
    for (const ir::ValueId value : graph_.outputs)
      if (root(value) == old) return -1;
    int writer = -1;
    for (size_t r = 0; r < partition_.regions.size(); ++r) {
      const auto& region = partition_.regions[r];
      const auto reads = std::count_if(region.inputs.begin(), region.inputs.end(), [&](ir::ValueId value) { return root(value) == old; });
      if (writer >= 0 && reads > 0) return -1;
      const auto& launches = *chosen_[r].launches;
      if (region.outputs.size() == 1 && region.outputs[0] == fresh && launches.begins_with_copy &&
          reads == 1 && root(region.inputs[static_cast<size_t>(launches.steps[0].arguments[0].index)]) == old)
        writer = static_cast<int>(r);
    }
    return writer;
  }

  void place_values() {
    for (const auto& state : graph_.states) {
      const int writer = writer_in_place(state);
      if (writer < 0) continue;
      in_place_.insert(writer);
      slot_[index(root(state.output))] = slot_[index(root(state.input))];
      has_slot_.insert(root(state.output));
    }
    // Graph outputs first: the first output of a buffer is computed in place, later ones are copies. What replaces a state as a whole
    // is computed beside it and copied when every step has read the old value.
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ir::ValueId owner = root(graph_.outputs[i]);
      if (graph_.is_constant(owner) || has_slot_.count(owner) != 0 || state_outputs_.count(static_cast<int>(i)) != 0) continue;
      const auto& layout = graph_.value(graph_.outputs[i]).layout;
      if (owner != graph_.outputs[i] && !layout.dense()) continue;
      slot_[index(owner)] = Slot{SlotKind::output, static_cast<int64_t>(i), 0};
      has_slot_.insert(owner);
    }
    // Everything else in the arena, from its producer to its last reader.
    std::map<ir::ValueId, Lifetime> alive;
    const int regions = static_cast<int>(partition_.regions.size());
    for (int r = 0; r < regions; ++r) {
      const auto& region = partition_.regions[static_cast<size_t>(r)];
      for (const ir::ValueId value : region.outputs) {
        if (has_slot_.count(root(value)) == 0) alive[root(value)] = {bytes(root(value)), r, r};
      }
      for (const ir::ValueId value : region.inputs) {
        if (auto found = alive.find(root(value)); found != alive.end()) found->second.last = r;
      }
    }
    for (const ir::ValueId value : graph_.outputs) {  // what a copy reads lives to the end
      if (auto found = alive.find(root(value)); found != alive.end()) found->second.last = regions;
    }
    std::vector<Lifetime> lifetimes;
    std::vector<ir::ValueId> owners;
    for (const auto& [value, lifetime] : alive) {
      owners.push_back(value);
      lifetimes.push_back(lifetime);
    }
    first_workspace_ = lifetimes.size();
    for (int r = 0; r < regions; ++r) {
      for (const int64_t size : chosen_[static_cast<size_t>(r)].launches->workspace_bytes) lifetimes.push_back({size, r, r});
    }
    placement_ = place(lifetimes);
    plan_.arena_bytes = placement_.peak;
    for (size_t i = 0; i < owners.size(); ++i) {
      slot_[index(owners[i])] = Slot{SlotKind::arena, placement_.offsets[i], 0};
      has_slot_.insert(owners[i]);
    }
  }

  void emit_steps() {
    size_t workspace = first_workspace_;
    for (size_t r = 0; r < partition_.regions.size(); ++r) {
      const auto& region = partition_.regions[r];
      const auto& launches = *chosen_[r].launches;
      const auto prepared = static_cast<int64_t>(plan_.prepared_bytes.size());
      for (const int64_t size : launches.prepared_bytes) plan_.prepared_bytes.push_back(size);
      const auto resolve = [&](const backend::BufferRef& ref) {
        const auto at = static_cast<size_t>(ref.index);
        switch (ref.kind) {
          case backend::BufferKind::input: return slot(region.inputs[at]);
          case backend::BufferKind::output: return slot(region.outputs[at]);
          case backend::BufferKind::workspace: return Slot{SlotKind::arena, placement_.offsets[workspace + at], 0};
          case backend::BufferKind::prepared: return Slot{SlotKind::prepared, prepared + ref.index, 0};
        }
        return Slot{};
      };
      const bool in_place = in_place_.count(static_cast<int>(r)) != 0;
      const auto convert = [&](const std::vector<backend::Launch>& from, std::vector<bundle::Step>& to) {
        for (const auto& launch : from) {
          if (launch.grid.count() == 0 || (in_place && &launch == &launches.steps.front())) continue;
          bundle::Step step;
          step.kernel = chosen_[r].kernel;
          step.entry = launch.entry;
          step.grid = launch.grid;
          step.group = launch.group;
          step.scratch_bytes = launch.scratch_bytes;
          step.region = region.name;
          step.views = launch.views;
          for (const auto& argument : launch.arguments) step.arguments.push_back(resolve(argument));
          to.push_back(std::move(step));
        }
      };
      convert(launches.prepare, plan_.prepare);
      convert(launches.steps, plan_.steps);
      workspace += launches.workspace_bytes.size();
    }
  }

  void emit_copies() {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Slot to{SlotKind::output, static_cast<int64_t>(i), 0};
      const Slot from = slot(graph_.outputs[i]);
      const bool stands_there = from.kind == SlotKind::input && state_outputs_.count(static_cast<int>(i)) != 0;  // updated in place
      if (!stands_there && !(from == to)) plan_.copies.push_back({from, to, bytes(graph_.outputs[i])});
    }
  }

  const ir::Graph& graph_;
  const fuse::Partition& partition_;
  const std::vector<Scheduled>& chosen_;
  bundle::Plan& plan_;
  std::vector<ir::ValueId> root_;
  std::vector<Slot> slot_;
  std::set<ir::ValueId> has_slot_;
  std::set<int> state_outputs_;
  std::set<int> in_place_;  // regions whose output stands where their first input does
  std::map<ir::ValueId, int64_t> constants_;
  Placement placement_;
  size_t first_workspace_ = 0;
};

}  // namespace

void schedule(const ir::Graph& graph, const fuse::Partition& partition, const std::vector<Scheduled>& chosen, bundle::Plan* plan) {
  Scheduler(graph, partition, chosen, plan).run();
}

}  // namespace rtx::compiler

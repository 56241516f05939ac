#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/binding.h"
#include "runtime/loaded.h"

namespace rtx::runtime {

namespace {

using bundle::Slot;
using bundle::SlotKind;

// A step with its argument pointers, which stand still between runs but for those that follow inputs and outputs.
struct PlacedStep {
  ReadyStep ready;
  size_t first_argument = 0;
  int arguments = 0;
};

// arguments_[at] = the tensor's data + offset.
struct Patch {
  size_t at = 0;
  int64_t offset = 0;
};

// An input or an output: where its data stands now and who uses it.
struct Port {
  const bundle::TensorInfo* info = nullptr;
  std::byte* data = nullptr;   // the buffer in use
  std::byte* own = nullptr;    // memory of the execution, once there was a run without a binding or with one that kernels cannot take
  int64_t bytes = 0;
  int state = -1;              // the state that keeps it, -1: the caller's
  std::byte* copy_to = nullptr;  // an output that is a state, or stands where kernels cannot write: where the caller wants a copy
  bool bound = false;          // in this run
  std::vector<Patch> patches;

  void point_to(std::byte* place, std::vector<void*>& arguments) {
    if (place == data) return;
    data = place;
    for (const Patch& patch : patches) arguments[patch.at] = place + patch.offset;
  }
};

class PlanExecution final : public Execution {
 public:
  PlanExecution(std::shared_ptr<const LoadedProgram> program, Allocator allocator)
      : program_(std::move(program)), device_(*program_->device()), plan_(program_->plan()), memory_(program_->device(), std::move(allocator)) {}

  Status set_up();
  Status run(const std::vector<Binding>& inputs, const std::vector<Binding>& outputs, backend::Stream stream) override {
    return run_all(inputs, outputs, stream, nullptr);
  }
  Status run_timed(const std::vector<Binding>& inputs, std::vector<StepTime>* times) override {
    if (times) times->clear();
    return run_all(inputs, {}, nullptr, times);
  }
  Result<TensorView> output(std::string_view name) override;
  void capture_runs(bool on) override {
    capture_runs_ = on;
    if (!on) recording_.reset();
  }

 private:
  Status run_all(const std::vector<Binding>& inputs, const std::vector<Binding>& outputs, backend::Stream stream, std::vector<StepTime>* times);
  Status run_guarded(const std::vector<Binding>& inputs, const std::vector<Binding>& outputs, backend::Stream stream, std::vector<StepTime>* times);
  Status bind_inputs(const std::vector<Binding>& inputs, backend::Stream stream);
  Status bind_outputs(const std::vector<Binding>& outputs, backend::Stream stream);
  Status bind_input(const Binding& binding, backend::Stream stream);
  // The execution's memory for a port whose data kernels cannot take where it stands.
  Status point_to_own(Port& port, const char* role);
  bool is_misplaced(const void* data) const { return reinterpret_cast<uintptr_t>(data) % alignment_ != 0; }
  Status compare_specialized(const bundle::SpecializedValue& value, const TensorView& view, backend::Stream stream) const;
  Status check_overlaps() const;
  Status launch(const PlacedStep& placed, backend::Stream stream);
  Status issue(backend::Stream stream);
  Status issue_timed(std::vector<StepTime>* times);
  Status finish(backend::Stream stream);
  Status replay(backend::Stream stream);
  void list_copies();
  std::byte* fixed_place(const Slot& slot) const;
  std::byte* place(const Slot& slot) const;
  Error fault(std::string why, std::string fix = {}) const { return user_error("cannot run " + (plan_.model_name.empty() ? "the model" : plan_.model_name), std::move(why), std::move(fix)); }

  std::shared_ptr<const LoadedProgram> program_;
  backend::Device& device_;
  const bundle::Plan& plan_;
  const uintptr_t alignment_ = static_cast<uintptr_t>(device_.argument_alignment());
  Memory memory_;
  std::byte* arena_ = nullptr;
  std::vector<std::byte*> states_;
  std::vector<Port> inputs_, outputs_;
  std::vector<void*> arguments_;
  std::vector<PlacedStep> steps_;
  struct Copy {
    std::byte* to;
    const std::byte* from;
    int64_t bytes;
    bool operator==(const Copy&) const = default;
  };
  std::vector<Copy> copies_;  // behind the last step of this run
  bool capture_runs_ = false;
  std::unique_ptr<backend::Recording> recording_;
  std::vector<void*> recorded_arguments_;  // of the recording
  std::vector<Copy> recorded_copies_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  bool complete_ = false;  // the last run succeeded
};

Status PlanExecution::set_up() {
  if (plan_.arena_bytes > 0) {
    RTX_TRY(void* arena, memory_.take(plan_.arena_bytes, "the workspace of an execution"));
    arena_ = static_cast<std::byte*>(arena);
  }
  for (const auto& info : plan_.inputs) inputs_.push_back({&info, nullptr, nullptr, byte_count(info), -1, nullptr, false, {}});
  for (const auto& info : plan_.outputs) outputs_.push_back({&info, nullptr, nullptr, byte_count(info), -1, nullptr, false, {}});

  size_t count = 0;
  for (const ReadyStep& ready : program_->steps()) {
    const auto& slots = ready.step->arguments;
    steps_.push_back({ready, count, static_cast<int>(slots.size())});
    for (size_t i = 0; i < slots.size(); ++i) {
      const auto index = static_cast<size_t>(slots[i].index);
      if (slots[i].kind == SlotKind::input) inputs_[index].patches.push_back({count + i, slots[i].offset});
      if (slots[i].kind == SlotKind::output) outputs_[index].patches.push_back({count + i, slots[i].offset});
    }
    count += slots.size();
  }
  arguments_.resize(count);

  for (size_t i = 0; i < plan_.states.size(); ++i) {
    const auto& state = plan_.states[i];
    const int64_t bytes = byte_count(state.info);
    RTX_TRY(void* memory, memory_.take(bytes, "state '" + state.info.name + "'"));
    RTX_TRY(const backend::Stream stream, device_.own_stream());
    RTX_CHECK(device_.fill(memory, std::byte{0}, bytes, stream));
    RTX_CHECK(device_.synchronize(stream));  // whatever stream a run is on
    states_.push_back(static_cast<std::byte*>(memory));
    const auto keep = [&](Port& port) {
      port.state = static_cast<int>(i);
      port.point_to(states_.back(), arguments_);
    };
    if (state.input >= 0) keep(inputs_[static_cast<size_t>(state.input)]);
    if (state.output >= 0) keep(outputs_[static_cast<size_t>(state.output)]);
  }
  for (const PlacedStep& placed : steps_)
    for (int i = 0; i < placed.arguments; ++i) {
      const Slot& slot = placed.ready.step->arguments[static_cast<size_t>(i)];
      if (slot.kind != SlotKind::input && slot.kind != SlotKind::output) arguments_[placed.first_argument + static_cast<size_t>(i)] = fixed_place(slot);
    }
  copies_.reserve(plan_.copies.size() + outputs_.size());
  return success();
}

std::byte* PlanExecution::fixed_place(const Slot& slot) const {
  switch (slot.kind) {
    case SlotKind::constant: return static_cast<std::byte*>(program_->constant(slot.index)) + slot.offset;
    case SlotKind::prepared: return static_cast<std::byte*>(program_->prepared(slot.index)) + slot.offset;
    case SlotKind::state: return states_[static_cast<size_t>(slot.index)] + slot.offset;
    case SlotKind::arena: return arena_ + slot.index + slot.offset;
    case SlotKind::input:
    case SlotKind::output: break;
  }
  return nullptr;
}

std::byte* PlanExecution::place(const Slot& slot) const {
  if (slot.kind == SlotKind::input) return inputs_[static_cast<size_t>(slot.index)].data + slot.offset;
  if (slot.kind == SlotKind::output) return outputs_[static_cast<size_t>(slot.index)].data + slot.offset;
  return fixed_place(slot);
}

Port* find(std::vector<Port>& ports, std::string_view name) {
  for (Port& port : ports)
    if (port.info->name == name) return &port;
  return nullptr;
}

std::string names_of(const std::vector<Port>& ports, bool only_unbound) {
  std::string out;
  for (const Port& port : ports)
    if (!only_unbound || (!port.bound && port.state < 0)) out += (out.empty() ? "'" : ", '") + port.info->name + "'";
  return out;
}

Status PlanExecution::compare_specialized(const bundle::SpecializedValue& value, const TensorView& view, backend::Stream stream) const {
  RTX_CHECK(check_binding(value.info, view, "input"));
  const auto bytes = static_cast<int64_t>(value.bytes.size());
  bool same = true;
  if (device_.host_addressable()) {
    same = bytes == 0 || std::memcmp(view.data, value.bytes.data(), value.bytes.size()) == 0;
  } else {
    if (device_.is_capturing(stream))
      return fault("input '" + value.info.name + "' is compared with the value that the model was compiled for, and its stream, which is being captured, cannot be waited for",
                   "leave the input out of a captured run");
    std::vector<std::byte> host(value.bytes.size());
    RTX_CHECK(device_.copy_out(host.data(), view.data, bytes, stream));
    RTX_CHECK(device_.synchronize(stream));
    same = host == value.bytes;
  }
  if (same) return success();
  return fault("input '" + value.info.name + "' has another value than the one that the model was compiled for", "compile the model again with this value");
}

Status PlanExecution::bind_input(const Binding& binding, backend::Stream stream) {
  Port* port = find(inputs_, binding.name);
  if (!port) {
    for (const auto& value : plan_.specialized)
      if (value.info.name == binding.name) return compare_specialized(value, binding.view, stream);
    return fault("it has no input '" + std::string(binding.name) + "'", "its inputs are " + names_of(inputs_, false));
  }
  if (port->bound) return fault("input '" + port->info->name + "' is bound twice");
  RTX_CHECK(check_binding(*port->info, binding.view, "input"));
  port->bound = true;
  if (port->state < 0 && is_misplaced(binding.view.data)) {
    RTX_CHECK(point_to_own(*port, "input"));
  } else if (port->state < 0) {
    port->point_to(static_cast<std::byte*>(binding.view.data), arguments_);
    return success();
  }
  // Binding the input of a state sets the state.
  return device_.copy_within(port->data, binding.view.data, port->bytes, stream);
}

Status PlanExecution::point_to_own(Port& port, const char* role) {
  if (!port.own) {
    RTX_TRY(void* memory, memory_.take(port.bytes, std::string(role) + " '" + port.info->name + "'"));
    port.own = static_cast<std::byte*>(memory);
  }
  port.point_to(port.own, arguments_);
  return success();
}

Status PlanExecution::bind_inputs(const std::vector<Binding>& inputs, backend::Stream stream) {
  for (Port& port : inputs_) port.bound = false;
  for (const Binding& binding : inputs) RTX_CHECK(bind_input(binding, stream));
  for (const Port& port : inputs_)
    if (!port.bound && port.state < 0) return fault("not bound: " + names_of(inputs_, true), "bind every input once");
  return success();
}

Status PlanExecution::bind_outputs(const std::vector<Binding>& outputs, backend::Stream stream) {
  for (Port& port : outputs_) {
    port.bound = false;
    port.copy_to = nullptr;
  }
  for (const Binding& binding : outputs) {
    Port* port = find(outputs_, binding.name);
    if (!port) return fault("it has no output '" + std::string(binding.name) + "'", "its outputs are " + names_of(outputs_, false));
    if (port->bound) return fault("output '" + port->info->name + "' is bound twice");
    RTX_CHECK(check_binding(*port->info, binding.view, "output"));
    port->bound = true;
    const bool misplaced = port->state < 0 && is_misplaced(binding.view.data);
    if (misplaced) {
      RTX_CHECK(point_to_own(*port, "output"));
      if (!port->info->strides.empty()) RTX_CHECK(device_.copy_within(port->own, binding.view.data, port->bytes, stream));  // what lies between its elements
    }
    if (misplaced || port->state >= 0)
      port->copy_to = static_cast<std::byte*>(binding.view.data);
    else
      port->point_to(static_cast<std::byte*>(binding.view.data), arguments_);
  }
  for (Port& port : outputs_)
    if (!port.bound && port.state < 0) RTX_CHECK(point_to_own(port, "output"));
  return success();
}

// A kernel may write an output before it has read all of an input, so one buffer cannot be both.
Status PlanExecution::check_overlaps() const {
  const auto overlap = [](const Port& a, const Port& b) {
    const std::byte* left = a.copy_to ? a.copy_to : a.data;
    const std::byte* right = b.copy_to ? b.copy_to : b.data;
    return a.bytes > 0 && b.bytes > 0 && left < right + b.bytes && right < left + a.bytes;
  };
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!outputs_[i].bound) continue;
    for (const Port& input : inputs_)
      if (overlap(outputs_[i], input)) return fault("output '" + outputs_[i].info->name + "' overlaps input '" + input.info->name + "'", "give each its own memory");
    for (size_t j = 0; j < outputs_.size(); ++j)
      if (j != i && overlap(outputs_[i], outputs_[j])) return fault("output '" + outputs_[i].info->name + "' overlaps output '" + outputs_[j].info->name + "'", "give each its own memory");
  }
  return success();
}

Status PlanExecution::launch(const PlacedStep& placed, backend::Stream stream) {
  const bundle::Step& step = *placed.ready.step;
  if (step.grid.count() == 0) return success();
  auto launched = device_.launch(placed.ready.function, step.grid, step.group, step.scratch_bytes, arguments_.data() + placed.first_argument, placed.arguments, stream, step.views);
  if (launched.ok()) return launched;
  return std::move(launched).error().in("region " + step.region + ", kernel " + plan_.kernels[static_cast<size_t>(step.kernel)].name);
}

// What stands behind the last step: outputs that are somebody else's value, and copies of states that the caller asked for.
void PlanExecution::list_copies() {
  copies_.clear();
  for (const auto& copy : plan_.copies) copies_.push_back({place(copy.to), place(copy.from), copy.bytes});
  for (const Port& port : outputs_)
    if (port.copy_to) copies_.push_back({port.copy_to, port.data, port.bytes});
}

Status PlanExecution::finish(backend::Stream stream) {
  for (const Copy& copy : copies_) RTX_CHECK(device_.copy_within(copy.to, copy.from, copy.bytes, stream));
  return success();
}

Status PlanExecution::issue(backend::Stream stream) {
  for (const PlacedStep& placed : steps_) RTX_CHECK(launch(placed, stream));
  return finish(stream);
}

Status PlanExecution::issue_timed(std::vector<StepTime>* times) {
  for (const PlacedStep& placed : steps_) {
    RTX_TRY(const double seconds, device_.time(nullptr, [&] { return launch(placed, nullptr); }));
    const bundle::Step& step = *placed.ready.step;
    times->push_back({step.region, plan_.kernels[static_cast<size_t>(step.kernel)].name, seconds * 1e3});
  }
  return finish(nullptr);
}

Status PlanExecution::replay(backend::Stream stream) {
  if (!recording_ || recorded_arguments_ != arguments_ || recorded_copies_ != copies_) {
    recording_.reset();
    RTX_TRY(recording_, device_.capture([this](backend::Stream own) { return issue(own); }));
    recorded_arguments_ = arguments_;
    recorded_copies_ = copies_;
  }
  return device_.replay(*recording_, stream);
}

Status PlanExecution::run_guarded(const std::vector<Binding>& inputs, const std::vector<Binding>& outputs, backend::Stream stream, std::vector<StepTime>* times) {
  complete_ = false;
  RTX_CHECK(bind_inputs(inputs, stream));
  RTX_CHECK(bind_outputs(outputs, stream));
  RTX_CHECK(check_overlaps());
  list_copies();
  if (times) {
    RTX_CHECK(issue_timed(times));
  } else if (capture_runs_ && !device_.is_capturing(stream)) {
    RTX_CHECK(replay(stream));
  } else {
    RTX_CHECK(issue(stream));
  }
  complete_ = true;
  return success();
}

Status PlanExecution::run_all(const std::vector<Binding>& inputs, const std::vector<Binding>& outputs, backend::Stream stream, std::vector<StepTime>* times) {
  if (busy_.test_and_set(std::memory_order_acquire))
    return fault("another thread is running this execution", "create one execution for each thread; they share the program");
  Status status = run_guarded(inputs, outputs, stream, times);
  busy_.clear(std::memory_order_release);
  return status;
}

Result<TensorView> PlanExecution::output(std::string_view name) {
  const Port* port = find(outputs_, name);
  if (!port) return fault("it has no output '" + std::string(name) + "'", "its outputs are " + names_of(outputs_, false));
  if (!complete_) return fault("there is no output '" + std::string(name) + "' yet", "call run() first, and only after it succeeded");
  if (port->bound && port->state < 0) return fault("output '" + std::string(name) + "' stands in the memory that was bound for it", "leave it unbound to have it kept here");
  return TensorView{port->data, port->info->dtype, port->info->extents, port->info->strides};
}

}  // namespace

Result<std::unique_ptr<Execution>> make_execution(std::shared_ptr<const LoadedProgram> program, Allocator allocator) {
  if (static_cast<bool>(allocator.allocate) != static_cast<bool>(allocator.release))
    return user_error("an allocator needs both its functions", allocator.allocate ? "release is missing" : "allocate is missing");
  auto execution = std::make_unique<PlanExecution>(std::move(program), std::move(allocator));
  RTX_CHECK(execution->set_up());
  return std::unique_ptr<Execution>(std::move(execution));
}

}  // namespace rtx::runtime

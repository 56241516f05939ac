#include "rtx/pipeline_run.h"

#include <algorithm>
#include <cmath>

#include "ir/text.h"
#include "rtx/environment.h"
#include "rtx/interrupt.h"
#include "validate/validate.h"

namespace rtx::tools {

compiler::Options pipeline_options(const TuneOptions& tune, const Common& common, Console& console) {
  compiler::Options options;
  options.tune = !tune.no_tune && tune.budget > 0;
  options.budget_seconds = tune.budget;
  options.budget_per_op_seconds = tune.budget_per_op;
  options.deterministic = tune.deterministic;
  options.jobs = common.jobs;
  options.stop = &interrupted();
  options.progress = [&console](std::string_view what, int done, int total) { console.progress(what, done, total); };
  options.notice = [&console](std::string_view line) { console.notice(line); };
  return options;
}

Result<compiler::Compiled> compile_graph(const ir::Graph& graph, Workbench& bench, const compiler::Options& options) {
  return compiler::compile(graph, bench.toolbox(), options);
}

Result<compiler::Compiled> compile_baseline(const ir::Graph& graph, Workbench& bench, compiler::Options options, bool library_only) {
  // More than an H200's cache holds, and what a host checks in half a second, reference and all.
  constexpr double kCheckedInFull = 1 << 24;
  // Its kernels have a dozen candidates each, and there are many of them: a block's took 40 s without.
  constexpr double kSecondsPerKernel = 2;
  const bool gpu = !bench.device().host_addressable();
  options.fuse = false;
  // cuBLASLt is the strongest a user has; on a CPU our own kernel may be faster than the library.
  options.vendor_always = library_only || gpu;
  options.fewer_rows_above = gpu ? kCheckedInFull : 0;
  if (gpu) options.budget_per_op_seconds = std::min(options.budget_per_op_seconds, kSecondsPerKernel);
  options.lock_file.clear();
  RTX_TRY(options.vendor, bench.vendor_library());
  return compiler::compile(graph, bench.toolbox(), options);
}

Result<std::unique_ptr<Session>> Session::open(std::shared_ptr<const runtime::Program> program, const std::vector<ir::HostTensor>& inputs) {
  auto session = std::make_unique<Session>();
  session->program_ = std::move(program);
  RTX_TRY(session->execution_, session->program_->create_execution());
  session->inputs_ = inputs;
  const auto& plan = session->program_->plan();
  const auto is_state = [&](size_t position, int bundle::StateInfo::*side) {
    return std::any_of(plan.states.begin(), plan.states.end(),
                       [&](const auto& state) { return state.*side == static_cast<int>(position); });
  };
  session->outputs_.reserve(plan.outputs.size());
  backend::Device& device = *session->program_->device();
  // Where the device reads or writes the tensor: its own bytes where it can, else memory of the device.
  const auto place = [&](ir::HostTensor& tensor) -> Result<void*> {
    if (device.host_addressable()) return static_cast<void*>(tensor.mutable_bytes());
    RTX_TRY(void* memory, device.allocate(tensor.byte_size()));
    session->device_memory_.push_back(memory);
    return memory;
  };
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    auto& tensor = session->inputs_[i];
    RTX_TRY(void* where, place(tensor));
    if (where != tensor.mutable_bytes()) RTX_CHECK(device.copy_in(where, tensor.bytes(), tensor.byte_size(), nullptr));
    session->input_bindings_.push_back({plan.inputs[i].name, {where, tensor.dtype(), tensor.extents(), {}}});
    if (!is_state(i, &bundle::StateInfo::input))
      session->next_inputs_.push_back(session->input_bindings_.back());
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    session->outputs_.emplace_back(plan.outputs[i].dtype, plan.outputs[i].extents);
    auto& tensor = session->outputs_.back();
    RTX_TRY(void* where, place(tensor));
    session->output_bindings_.push_back({plan.outputs[i].name, {where, tensor.dtype(), tensor.extents(), {}}});
    if (!is_state(i, &bundle::StateInfo::output))
      session->next_outputs_.push_back(session->output_bindings_.back());
  }
  RTX_CHECK(device.synchronize(nullptr));
  return session;
}

Session::~Session() {
  for (void* memory : device_memory_) program_->device()->release(memory);
}

Status Session::run() {
  RTX_CHECK(execution_->run(input_bindings_, output_bindings_));
  has_run_ = true;
  backend::Device& device = *program_->device();
  if (device.host_addressable()) return success();
  for (size_t k = 0; k < output_bindings_.size(); ++k) {
    auto& tensor = outputs_[k];
    RTX_CHECK(device.copy_out(tensor.mutable_bytes(), output_bindings_[k].view.data, tensor.byte_size(), nullptr));
  }
  return device.synchronize(nullptr);
}

Result<double> Session::time_once() {
  if (!has_run_) RTX_CHECK(run());
  return program_->device()->time(nullptr, [this] { return execution_->run(next_inputs_, next_outputs_); });
}

Result<std::vector<runtime::StepTime>> Session::run_timed() {
  if (!has_run_) RTX_CHECK(run());
  std::vector<runtime::StepTime> times;
  RTX_CHECK(execution_->run_timed(next_inputs_, &times));
  return times;
}

namespace {

// Far above what the order of a sum does, far below a wrong kernel.
constexpr double kSameResult = 2e-2;

double relative_difference(const ir::HostTensor& a, const ir::HostTensor& b) {
  double error = 0, norm = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = a.get_double(i), y = b.get_double(i);
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    error += (x - y) * (x - y);
    norm += y * y;
  }
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

}  // namespace

Status check_same_results(Session& compiled, Session& baseline) {
  RTX_CHECK(compiled.run());
  RTX_CHECK(baseline.run());
  for (size_t i = 0; i < compiled.outputs().size(); ++i) {
    const double apart = relative_difference(compiled.outputs()[i], baseline.outputs()[i]);
    if (apart > kSameResult)
      return error_of(ErrorKind::check_failed, "the compiled model and its unfused baseline disagree",
                      "output " + compiled.program().plan().outputs[i].name + " differs by " + number(apart) + " of its norm", "run `rtx verify` on the model");
  }
  return success();
}

Result<std::vector<ir::HostTensor>> plan_inputs(const bundle::Plan& plan, const std::map<std::string, ir::HostTensor>& named, std::optional<uint64_t> random) {
  std::vector<ir::HostTensor> drawn;
  std::vector<std::string> names;
  if (random) {
    // The plan's graph says which inputs are indices, so random ones stay in range.
    auto graph = ir::parse_structure(plan.graph);
    if (graph.ok() && graph->inputs.size() == plan.inputs.size()) drawn = validate::make_inputs(*graph, *random, validate::InputKind::random);
  }
  for (const auto& item : named) {
    const std::string& name = item.first;
    const bool known = std::any_of(plan.inputs.begin(), plan.inputs.end(), [&](const auto& info) { return info.name == name; }) ||
                       std::any_of(plan.specialized.begin(), plan.specialized.end(), [&](const auto& value) { return value.info.name == name; });
    if (!known) {
      std::string all;
      for (const auto& info : plan.inputs) all += (all.empty() ? "" : ", ") + info.name;
      return user_error("the model has no input '" + name + "'", "its inputs are " + all);
    }
  }
  std::vector<ir::HostTensor> out;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const auto& info = plan.inputs[i];
    if (auto found = named.find(info.name); found != named.end()) {
      if (found->second.dtype() != info.dtype || found->second.extents() != info.extents)
        return user_error("input '" + info.name + "' does not fit", "found " + std::string(ir::name(found->second.dtype())) + ir::text(found->second.extents()) +
                                                                        ", wanted " + std::string(ir::name(info.dtype)) + ir::text(info.extents));
      out.push_back(found->second);
    } else if (random && i < drawn.size()) {
      out.push_back(drawn[i]);
    } else if (random) {
      ir::HostTensor tensor(info.dtype, info.extents);  // no graph to ask: small non-negative integers fit any index
      for (int64_t e = 0; e < tensor.count(); ++e) tensor.set_double(e, ir::is_floating(info.dtype) ? 0.01 * static_cast<double>((e * 37 + static_cast<int64_t>(*random)) % 200 - 100) : 0);
      out.push_back(std::move(tensor));
    } else {
      return user_error("input '" + info.name + "' has no value", "it is " + std::string(ir::name(info.dtype)) + ir::text(info.extents),
                        "give --input " + info.name + "=FILE, or --random SEED");
    }
  }
  return out;
}

runtime::LoadOptions load_options(Workbench* bench, const Common& common, Console& console, bool allow_unsigned) {
  runtime::LoadOptions options;
  if (bench) options.device = bench->shared_device();
  options.threads = common.threads;
  options.allow_unsigned = allow_unsigned;
  options.key_directory = key_directory();
  options.notice = [&console](std::string_view line) { console.notice(line); };
  return options;
}

}  // namespace rtx::tools

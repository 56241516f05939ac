#include "tune/trial.h"

#include <algorithm>
#include <memory>

#include "measure/measure.h"

namespace rtx::tune {

namespace {

class DeviceTrial final : public Trial {
 public:
  explicit DeviceTrial(backend::Device& device) : device_(device) {}
  ~DeviceTrial() override {
    for (void* pointer : owned_) device_.release(pointer);
  }

  Status set_up(const backend::KernelPlan& plan, const backend::Binary& binary, const ir::Graph& body, const std::vector<ir::HostTensor>& inputs) {
    RTX_TRY(module_, device_.load(binary.bytes, plan.name));
    std::vector<void*> in, out, workspace, prepared;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& value = body.value(body.inputs[i]);
      RTX_TRY(void* pointer, allocate(spanned_bytes(body, body.inputs[i])));
      // A strided input is timed on its dense bytes: the addresses touched are the layout's, the values do not matter here.
      const int64_t bytes = value.layout.dense() ? inputs[i].byte_size() : std::min(inputs[i].byte_size(), spanned_bytes(body, body.inputs[i]));
      RTX_CHECK(device_.copy_in(pointer, inputs[i].bytes(), bytes, nullptr));
      in.push_back(pointer);
    }
    for (const auto id : body.outputs) {
      RTX_TRY(void* pointer, allocate(spanned_bytes(body, id)));
      out.push_back(pointer);
    }
    for (const int64_t bytes : plan.workspace_bytes) {
      RTX_TRY(void* pointer, allocate(bytes));
      workspace.push_back(pointer);
    }
    for (const int64_t bytes : plan.prepared_bytes) {
      RTX_TRY(void* pointer, allocate(bytes));
      prepared.push_back(pointer);
    }
    const auto resolve = [&](const std::vector<backend::Launch>& launches, std::vector<Ready>& into) -> Status {
      for (const auto& launch : launches) {
        if (launch.grid.count() == 0) continue;
        Ready ready{{}, launch.grid, launch.group, launch.scratch_bytes, {}, launch.views};
        RTX_TRY(ready.function, device_.function(*module_, launch.entry));
        for (const auto& ref : launch.arguments) {
          const auto& from = ref.kind == backend::BufferKind::input       ? in
                             : ref.kind == backend::BufferKind::output    ? out
                             : ref.kind == backend::BufferKind::workspace ? workspace : prepared;
          ready.arguments.push_back(from.at(static_cast<size_t>(ref.index)));
        }
        into.push_back(std::move(ready));
      }
      return success();
    };
    std::vector<Ready> prepare;
    RTX_CHECK(resolve(plan.prepare, prepare));
    RTX_CHECK(resolve(plan.steps, steps_));
    RTX_CHECK(issue(prepare));
    return device_.synchronize(nullptr);
  }

  Status run_once() override {
    RTX_CHECK(issue(steps_));
    return device_.synchronize(nullptr);
  }
  Result<double> time_once() override {
    return device_.time(nullptr, [this] { return issue(steps_); });
  }

 private:
  struct Ready {
    backend::Function function;
    backend::Dim3 grid, group;
    int64_t scratch_bytes = 0;
    std::vector<void*> arguments;
    std::vector<backend::TensorView> views;
  };

  static int64_t spanned_bytes(const ir::Graph& body, ir::ValueId id) {
    const auto& value = body.value(id);
    const auto extents = body.extents(id);
    int64_t elements = ir::element_count(extents);
    if (!value.layout.dense() && elements > 0) {
      const auto strides = value.layout.strides.empty() ? ir::row_major_strides(extents) : value.layout.strides;
      elements = value.layout.offset + 1;
      for (size_t d = 0; d < extents.size(); ++d) elements += (extents[d] - 1) * strides[d];
    }
    return elements * ir::bytes_of(value.dtype);
  }
  Result<void*> allocate(int64_t bytes) {
    RTX_TRY(void* pointer, device_.allocate(bytes));
    owned_.push_back(pointer);
    RTX_CHECK(device_.fill(pointer, std::byte{0}, bytes, nullptr));  // touches every page before anything is timed
    return pointer;
  }
  Status issue(const std::vector<Ready>& launches) {
    for (const auto& launch : launches)
      RTX_CHECK(device_.launch(launch.function, launch.grid, launch.group, launch.scratch_bytes, launch.arguments.data(),
                               static_cast<int>(launch.arguments.size()), nullptr, launch.views));
    return success();
  }

  backend::Device& device_;
  std::unique_ptr<backend::Module> module_;
  std::vector<Ready> steps_;
  std::vector<void*> owned_;
};

}  // namespace

validate::Bounds bounds_of(const kernels::Tolerance& tolerance) {
  validate::Bounds bounds;
  bounds.terms = std::max<int64_t>(tolerance.terms, 1);
  switch (tolerance.tolerance_class) {
    case kernels::ToleranceClass::exact: bounds.rule = validate::Rule::exact; break;
    case kernels::ToleranceClass::attention: bounds.rule = validate::Rule::attention; break;
    default: bounds.rule = validate::Rule::norm_element;
  }
  return bounds;
}

Result<std::unique_ptr<Trial>> Trial::prepare(backend::Device& device, const backend::KernelPlan& plan, const backend::Binary& binary,
                                              const ir::Graph& body, const std::vector<ir::HostTensor>& inputs) {
  auto trial = std::make_unique<DeviceTrial>(device);
  RTX_CHECK(trial->set_up(plan, binary, body, inputs));
  return std::unique_ptr<Trial>(std::move(trial));
}

Outcome try_candidate(backend::Device& device, const backend::KernelPlan& plan, const backend::Binary& binary, const ir::Graph& body,
                      const std::vector<validate::Case>& cases, const validate::Bounds& bounds, bool time_it, double timeout_seconds) {
  auto module = device.load(binary.bytes, plan.name);
  if (!module.ok()) return CompileFailed{module.error().what + ": " + module.error().why};
  const auto faults = validate::check_plan(device, **module, plan, body, cases, bounds);
  if (!faults.empty()) return WrongResult{faults.front().text, faults.front().kind == validate::Fault::Kind::no_memory};
  if (!time_it) return Measured{};

  auto trial = Trial::prepare(device, plan, binary, body, cases.front().inputs);
  if (!trial.ok()) return WrongResult{trial.error().what + ": " + trial.error().why};
  measure::Options options;
  options.warmup = 2;
  options.minimum_samples = 5;
  options.maximum_samples = 60;
  options.target_seconds = std::min(0.03, timeout_seconds / 4);
  auto samples = measure::sample([&] { return (*trial)->time_once(); }, options);
  if (!samples.ok()) return WrongResult{samples.error().what + ": " + samples.error().why};
  return Measured{samples->median() * 1e3, samples->interval_low() * 1e3, samples->interval_high() * 1e3, static_cast<int>(samples->seconds.size())};
}

}  // namespace rtx::tune

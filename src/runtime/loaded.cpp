#include "runtime/loaded.h"

#include <chrono>

namespace rtx::runtime {

namespace {

// Constants are hashed by this many threads: BLAKE2b runs at about 0.8 GB/s on one.
constexpr int kHashThreads = 2;

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Result<std::shared_ptr<LoadedProgram>> LoadedProgram::make(bundle::Plan plan, std::shared_ptr<backend::Device> device, Allocator allocator,
                                                           std::function<Status(int)> verify) {
  std::shared_ptr<LoadedProgram> program(new LoadedProgram(std::move(plan), std::move(device), std::move(allocator), std::move(verify)));
  RTX_TRY(const double ready, program->device_->make_ready());
  RTX_CHECK(program->load_modules());
  LoadReport& facts = program->facts;
  facts.context_ms = ready * 1e3;
  facts.arena_bytes = program->plan_.arena_bytes;
  for (const auto& constant : program->plan_.constants) facts.constant_bytes += constant.byte_size;
  for (const int64_t bytes : program->plan_.prepared_bytes) facts.prepared_bytes += bytes;
  return program;
}

Status LoadedProgram::load_modules() {
  for (const auto& kernel : plan_.kernels) {
    auto module = device_->load(kernel.binary, kernel.name);
    if (!module.ok()) return std::move(module).error().in("kernel " + kernel.name);
    modules_.push_back(*std::move(module));
  }
  const auto resolve = [&](const std::vector<bundle::Step>& steps, std::vector<ReadyStep>& ready) -> Status {
    for (const auto& step : steps) {
      const auto kernel = static_cast<size_t>(step.kernel);
      auto function = device_->function(*modules_[kernel], step.entry);
      if (!function.ok()) return std::move(function).error().in("kernel " + plan_.kernels[kernel].name);
      ready.push_back({*function, &step});
    }
    return success();
  };
  RTX_CHECK(resolve(plan_.prepare, prepare_steps_));
  return resolve(plan_.steps, steps_);
}

LoadReport LoadedProgram::report() const {
  const std::lock_guard lock(report_mutex_);
  LoadReport report = facts;
  report.constants_ms = constants_ms_;
  return report;
}

Status LoadedProgram::prepare() const {
  std::call_once(prepare_once_, [this] {
    const auto start = std::chrono::steady_clock::now();
    prepare_status_ = prepare_now();
    const std::lock_guard lock(report_mutex_);
    constants_ms_ = ms_since(start);
  });
  return prepare_status_;
}

Status LoadedProgram::prepare_now() const {
  if (verify_) RTX_CHECK(verify_(kHashThreads));
  // A stream of the device's own: the caller may be capturing one that the default stream would wait for.
  RTX_TRY(const backend::Stream stream, device_->own_stream());
  for (const auto& constant : plan_.constants) {
    auto* bytes = const_cast<std::byte*>(constant.bytes);  // kernels only read it; the mapping is read-only
    void* place = bytes;
    if (!device_->host_addressable()) {
      RTX_TRY(place, memory_.take(constant.byte_size, "constant '" + constant.info.name + "'"));
      RTX_CHECK(device_->copy_in(place, bytes, constant.byte_size, stream));
    }
    constants_.push_back(place);
  }
  for (size_t i = 0; i < plan_.prepared_bytes.size(); ++i) {
    RTX_TRY(void* place, memory_.take(plan_.prepared_bytes[i], "prepared buffer " + std::to_string(i)));
    prepared_.push_back(place);
  }
  return run_prepare_steps(stream);
}

Status LoadedProgram::run_prepare_steps(backend::Stream stream) const {
  Memory workspace(device_, allocator_);
  std::byte* arena = nullptr;
  for (const auto& ready : prepare_steps_) {
    std::vector<void*> arguments;
    for (const auto& slot : ready.step->arguments) {
      std::byte* base = nullptr;
      if (slot.kind == bundle::SlotKind::constant) base = static_cast<std::byte*>(constant(slot.index));
      if (slot.kind == bundle::SlotKind::prepared) base = static_cast<std::byte*>(prepared(slot.index));
      if (slot.kind == bundle::SlotKind::arena) {
        if (!arena) {
          RTX_TRY(void* memory, workspace.take(plan_.arena_bytes, "workspace for preparing constants"));
          arena = static_cast<std::byte*>(memory);
        }
        base = arena + slot.index;
      }
      arguments.push_back(base + slot.offset);
    }
    const bundle::Step& step = *ready.step;
    if (step.grid.count() == 0) continue;
    auto launched = device_->launch(ready.function, step.grid, step.group, step.scratch_bytes, arguments.data(), static_cast<int>(arguments.size()), stream, step.views);
    if (!launched.ok()) return std::move(launched).error().in("preparing constants for " + step.region + ", entry " + step.entry);
  }
  return device_->synchronize(stream);
}

Result<std::unique_ptr<Execution>> LoadedProgram::create_execution(const Allocator& allocator) const {
  RTX_CHECK(prepare());
  auto self = std::static_pointer_cast<const LoadedProgram>(shared_from_this());
  return make_execution(std::move(self), allocator.allocate ? allocator : allocator_);
}

}  // namespace rtx::runtime

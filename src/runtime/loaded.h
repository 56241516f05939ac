#pragma once
// A Program in memory: modules, entries and constants. Internal to the runtime.
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/memory.h"
#include "runtime/program.h"

namespace rtx::runtime {

// A Step with its entry looked up.
struct ReadyStep {
  backend::Function function;
  const bundle::Step* step = nullptr;
};

class LoadedProgram final : public Program {
 public:
  // `verify` checks the bytes of the constants and is called before they are used; empty when there is nothing to check.
  static Result<std::shared_ptr<LoadedProgram>> make(bundle::Plan plan, std::shared_ptr<backend::Device> device, Allocator allocator,
                                                     std::function<Status(int threads)> verify);

  const bundle::Plan& plan() const override { return plan_; }
  LoadReport report() const override;
  Status prepare() const override;
  Result<std::unique_ptr<Execution>> create_execution(const Allocator& allocator) const override;

  const std::shared_ptr<backend::Device>& device() const override { return device_; }
  const std::vector<ReadyStep>& steps() const { return steps_; }
  // Device pointers; after prepare().
  void* constant(int64_t index) const { return constants_[static_cast<size_t>(index)]; }
  void* prepared(int64_t index) const { return prepared_[static_cast<size_t>(index)]; }

  LoadReport facts;  // filled by load()

 private:
  LoadedProgram(bundle::Plan plan, std::shared_ptr<backend::Device> device, Allocator allocator, std::function<Status(int)> verify)
      : plan_(std::move(plan)), device_(std::move(device)), allocator_(std::move(allocator)), verify_(std::move(verify)), memory_(device_, allocator_) {}
  Status load_modules();
  Status prepare_now() const;
  Status run_prepare_steps(backend::Stream stream) const;

  bundle::Plan plan_;
  std::shared_ptr<backend::Device> device_;
  Allocator allocator_;
  std::function<Status(int)> verify_;
  std::vector<std::unique_ptr<backend::Module>> modules_;  // by kernel
  std::vector<ReadyStep> steps_, prepare_steps_;

  // Done once, by the first who needs it; a failure stays.
  mutable std::once_flag prepare_once_;
  mutable Status prepare_status_;
  mutable Memory memory_;
  mutable std::vector<void*> constants_, prepared_;
  mutable double constants_ms_ = 0;
  mutable std::mutex report_mutex_;
};

Result<std::unique_ptr<Execution>> make_execution(std::shared_ptr<const LoadedProgram> program, Allocator allocator);

}  // namespace rtx::runtime

#pragma once
// Programs of one problem timed against each other: all see the same tensors, of which there are so many sets
// that none stays in a cache, and take turns in shuffled order. What is short is issued as one recording of
// many launches, so that nobody's launches are timed.
#include <memory>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "measure/measure.h"
#include "runtime/program.h"

namespace rtx::tools {

// Sets of tensors: the same values in each, at places of their own.
class TensorSets {
 public:
  // As many sets as span the device's last cache twice; one where the device is the host.
  static Result<std::unique_ptr<TensorSets>> make(std::shared_ptr<backend::Device> device,
                                                  const bundle::Plan& plan,
                                                  const std::vector<ir::HostTensor>& inputs);
  ~TensorSets();
  TensorSets(const TensorSets&) = delete;
  TensorSets& operator=(const TensorSets&) = delete;

  int count() const { return static_cast<int>(inputs_.size()); }
  const std::vector<runtime::Binding>& inputs(int set) const { return inputs_[static_cast<size_t>(set)]; }
  const std::vector<runtime::Binding>& outputs(int set) const { return outputs_[static_cast<size_t>(set)]; }
  Result<std::vector<ir::HostTensor>> results(int set) const;
  Status poison();  // NaN bytes into all outputs

 private:
  TensorSets() = default;
  std::shared_ptr<backend::Device> device_;
  std::vector<std::string> names_;
  std::vector<bundle::TensorInfo> infos_;
  std::vector<std::vector<runtime::Binding>> inputs_, outputs_;
  std::vector<void*> owned_;
};

class Contender {
 public:
  static Result<std::unique_ptr<Contender>> open(std::string name,
                                                 std::shared_ptr<const runtime::Program> program,
                                                 const TensorSets& sets);
  const std::string& name() const { return name_; }
  backend::Device& device() const { return *program_->device(); }
  Status run(int set, backend::Stream stream = nullptr) {
    return execution_->run(sets_.inputs(set), sets_.outputs(set), stream);
  }
  // Seconds of one of `launches` launches, one after the other over the sets; out of a recording once there
  // is one.
  Result<double> time(int launches);
  Status record(int launches);
  bool recorded() const { return recording_ != nullptr; }

 private:
  Contender(const TensorSets& sets) : sets_(sets) {}  // NOLINT
  Status issue(int launches, backend::Stream stream);
  std::string name_;
  const TensorSets& sets_;
  std::shared_ptr<const runtime::Program> program_;
  std::unique_ptr<runtime::Execution> execution_;
  std::unique_ptr<backend::Recording> recording_;
  int next_ = 0;
};

struct RotationOptions {
  int rounds = 15, warmup = 2;
  double sustained_seconds = 0;  // then each alone, for this long
};
struct RotationResult {
  measure::Samples samples;
  double sustained_seconds = 0;  // of one launch, alone, in the second half of that time; 0: not asked for
  backend::Conditions conditions, sustained;
};
struct Rotated {
  std::vector<RotationResult> of;  // by contender
  int launches = 1, sets = 1;
  bool recorded = false;
};
// What every contender takes less than is timed as a recording of at least kRecordedLaunches, the rest in
// bursts.
constexpr double kShortSeconds = 50e-6;
constexpr int kRecordedLaunches = 20;

// Kind check_failed where two contenders' results differ; kind interrupted after Ctrl-C.
Result<Rotated> rotate(std::vector<std::unique_ptr<Contender>>& contenders, TensorSets& sets,
                       const RotationOptions& options);

}  // namespace rtx::tools

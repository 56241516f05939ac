#pragma once
// What several commands share around the pipeline: compiling with progress and notices, running programs on host tensors, timing
// the compiled model and its unfused baseline side by side.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "measure/measure.h"
#include "rtx/console.h"
#include "rtx/options.h"
#include "rtx/workbench.h"
#include "runtime/program.h"

namespace rtx::tools {

compiler::Options pipeline_options(const TuneOptions& tune, const Common& common, Console& console);
Result<compiler::Compiled> compile_graph(const ir::Graph& graph, Workbench& bench, const compiler::Options& options);
// The unfused baseline of the same graph: one kernel a node; for matmul the faster of the vendor's library and our own kernel, or
// with `library_only` always the library.
Result<compiler::Compiled> compile_baseline(const ir::Graph& graph, Workbench& bench, compiler::Options options, bool library_only = false);

// A program with the tensors of one run bound to it.
class Session {
 public:
  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  static Result<std::unique_ptr<Session>> open(std::shared_ptr<const runtime::Program> program, const std::vector<ir::HostTensor>& inputs);
  ~Session();
  Status run();  // the inputs as they were given, states too; their results are in outputs()
  // Seconds from launch to the end, without copies to and from a device. States go on from the run before and
  // stay where they are.
  Result<double> time_once();
  Result<std::vector<runtime::StepTime>> run_timed();
  // Runs are issued as one CUDA graph from now on, where the device has graphs. The unfused baseline does without.
  void capture_runs() { execution_->capture_runs(!program_->device()->host_addressable()); }
  const std::vector<ir::HostTensor>& outputs() const { return outputs_; }
  const runtime::Program& program() const { return *program_; }

 private:
  std::shared_ptr<const runtime::Program> program_;
  std::unique_ptr<runtime::Execution> execution_;
  std::vector<ir::HostTensor> inputs_, outputs_;
  std::vector<void*> device_memory_;  // of a device that cannot use the host's: a place for each bound tensor
  std::vector<runtime::Binding> input_bindings_, output_bindings_;
  std::vector<runtime::Binding> next_inputs_, next_outputs_;  // without states: those of a run that goes on
  bool has_run_ = false;
};

// Runs both. Two programs that do not compute the same are not compared: kind check_failed. Both were checked kernel by kernel, but for the
// library's and the largest of the baseline, which this is the check of.
Status check_same_results(Session& compiled, Session& baseline);

// Inputs of a plan from named tensors, or random ones where `random` is given; errors name what is missing.
Result<std::vector<ir::HostTensor>> plan_inputs(const bundle::Plan& plan, const std::map<std::string, ir::HostTensor>& named, std::optional<uint64_t> random);

runtime::LoadOptions load_options(Workbench* bench, const Common& common, Console& console, bool allow_unsigned);

}  // namespace rtx::tools

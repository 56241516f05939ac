#pragma once
// The runtime: a Program is immutable and shared between threads; an Execution owns workspace and serves one thread at a time.
// Links no compiler, no ONNX, no protobuf. Public header of librtx_runtime.
//
//   auto program = rtx::runtime::Program::load("model.rtxgc", options);      // Result<std::shared_ptr<const Program>>
//   auto execution = program->create_execution(execution_options);           // Result<std::unique_ptr<Execution>>
//   execution->run({{"x", view}}, {{"y", view}});                            // Status; allocates nothing in the steady state
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device.h"
#include "base/result.h"
#include "bundle/bundle.h"

namespace rtx::runtime {

// A tensor of the caller's: pointer in the device's address space, extents and strides in elements (empty strides: dense row-major).
// Where the plan's TensorInfo has an offset, `data` is the start of the buffer and the first element stands that many elements in.
struct TensorView {
  void* data = nullptr;
  ir::DType dtype = ir::DType::f32;
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;
};
struct Binding {
  std::string_view name;
  TensorView view;
};

// The caller's allocator: both functions or none. Called by whoever creates, prepares or destroys a Program or an Execution, and once
// for each output by the first run() that leaves it unbound; never in the steady state.
struct Allocator {
  std::function<void*(int64_t bytes, int64_t alignment)> allocate;  // null on exhaustion
  std::function<void(void* pointer, int64_t bytes)> release;
};

struct LoadOptions {
  std::shared_ptr<backend::Device> device;  // null: the embedded CPU device
  int threads = 0;                          // CPU: threads a run may use, 0: all the process may run on
  bool allow_unsigned = false;
  std::string key_directory;                // trusted keys; empty: $XDG_CONFIG_HOME/rtx-synth, else ~/.config/rtx-synth
  Allocator allocator;
  // Called when the verdict is rebuild (rtx and librtx_compiler register one); empty: the verdict is returned as an error of kind bundle.
  std::function<Result<bundle::Plan>(const bundle::Opened&, const bundle::Verdict&)> rebuild;
  std::function<void(std::string_view line)> notice;  // one line when something falls back; empty: silent
};

struct LoadReport {
  double load_ms = 0;       // path to ready for the first launch: manifest and kernels verified, constants mapped
  double context_ms = 0;    // device context creation (0 on a CPU)
  double constants_ms = 0;  // verifying, copying and packing constants (done before first use; 0 until then)
  std::string verdict;      // "exact", "compatible", "rebuild"
  int64_t constant_bytes = 0, arena_bytes = 0, prepared_bytes = 0, file_bytes = 0;
};

struct StepTime {
  std::string region, kernel;
  double ms = 0;
};

class Execution;

class Program : public std::enable_shared_from_this<Program> {
 public:
  static Result<std::shared_ptr<const Program>> load(const std::string& path, const LoadOptions& options = {});
  // From a plan in memory (what the compiler produced), same path as load after reading.
  static Result<std::shared_ptr<const Program>> from_plan(bundle::Plan plan, const LoadOptions& options = {});
  virtual ~Program() = default;

  virtual const bundle::Plan& plan() const = 0;
  virtual LoadReport report() const = 0;
  virtual const std::shared_ptr<backend::Device>& device() const = 0;  // the one it was loaded for
  // Verifies, copies and packs constants now instead of when the first Execution is created. Done once; a failure stays.
  virtual Status prepare() const = 0;
  virtual Result<std::unique_ptr<Execution>> create_execution(const Allocator& allocator = {}) const = 0;
};

class Execution {
 public:
  virtual ~Execution() = default;
  // A stream that the caller is capturing takes the launches into his graph; nothing waits for it.
  // Every input of the plan bound once (specialised inputs may be bound too and are compared); outputs may be left out (then kept in
  // memory of the execution, see output()). dtype, extents and layout must match; errors name the tensor, found and wanted. Data needs
  // only the alignment of one element. No output may overlap an input or another output. Nothing is copied to make a view fit, but what
  // stands where a GPU's kernels cannot take it (no multiple of 16 bytes) is, on the stream.
  // States start as zeros and live here: binding the input of one sets it, leaving it out goes on from the run before; binding its
  // output gives a copy.
  virtual Status run(const std::vector<Binding>& inputs, const std::vector<Binding>& outputs = {}, backend::Stream stream = nullptr) = 0;
  // The execution's own copy of an output after run() without a binding for it.
  virtual Result<TensorView> output(std::string_view name) = 0;
  // From now on run() issues what it launches as one recording (a CUDA graph). It is made anew by a run whose tensors do not stand where
  // they did before, which costs more than launching: for callers whose buffers stay.
  virtual void capture_runs(bool on) = 0;
  // Runs with the time of each step, by the device's clock.
  virtual Status run_timed(const std::vector<Binding>& inputs, std::vector<StepTime>* times) = 0;
};

}  // namespace rtx::runtime

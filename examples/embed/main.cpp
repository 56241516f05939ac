// Runs a bundle from four threads at once, on memory that this program hands out itself.
//
// One Program is shared: it is immutable. Each thread has an Execution of its own, which takes its workspace from the thread's
// allocator once and nothing after that. All threads run the same inputs, so all must get the same bytes.
#include <rtx/runtime/program.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace runtime = rtx::runtime;

namespace {

// An allocator as an engine might have one: it counts, and everything it gave must come back.
class CountingAllocator {
 public:
  runtime::Allocator callbacks() {
    runtime::Allocator allocator;
    allocator.allocate = [this](int64_t bytes, int64_t alignment) -> void* {
      ++calls_;
      alive_ += bytes;
      peak_ = std::max(peak_.load(), alive_.load());
      const auto rounded = (bytes + alignment - 1) / alignment * alignment;
      return std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(rounded));
    };
    allocator.release = [this](void* pointer, int64_t bytes) {
      alive_ -= bytes;
      std::free(pointer);
    };
    return allocator;
  }
  int64_t calls() const { return calls_; }
  int64_t alive() const { return alive_; }
  int64_t peak() const { return peak_; }

 private:
  std::atomic<int64_t> calls_{0}, alive_{0}, peak_{0};
};

// A dense tensor in this program's memory.
struct Tensor {
  std::string name;
  runtime::TensorView view;
  std::vector<std::byte> bytes;

  explicit Tensor(const rtx::bundle::TensorInfo& info) : name(info.name) {
    int64_t count = 1;
    for (const int64_t extent : info.extents) count *= extent;
    bytes.resize(static_cast<size_t>(count * rtx::ir::bytes_of(info.dtype)));
    view = {bytes.data(), info.dtype, info.extents, {}};
  }
  Tensor(Tensor&&) = default;  // a moved vector keeps its memory, so `view` stays right
};

// Values between -1 and 1 for f32, zeros for all else: zero is a valid index everywhere.
void fill(Tensor& tensor, uint32_t seed) {
  if (tensor.view.dtype != rtx::ir::DType::f32) return;
  for (size_t i = 0; i + 4 <= tensor.bytes.size(); i += 4) {
    seed = seed * 1664525u + 1013904223u;
    const float value = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
    std::memcpy(tensor.bytes.data() + i, &value, sizeof value);
  }
}

struct Worker {
  CountingAllocator memory;
  std::vector<Tensor> outputs;
  int64_t calls_when_warm = 0;
  double milliseconds = 0;  // of one run
  std::string error;
};

void run_worker(const runtime::Program& program, const std::vector<runtime::Binding>& inputs, Worker& worker) {
  constexpr int kRuns = 20;
  auto execution = program.create_execution(worker.memory.callbacks());
  if (!execution.ok()) {
    worker.error = execution.error().text();
    return;
  }
  std::vector<runtime::Binding> outputs;
  for (Tensor& tensor : worker.outputs) outputs.push_back({tensor.name, tensor.view});
  const auto start = std::chrono::steady_clock::now();
  for (int run = 0; run < kRuns; ++run) {
    const rtx::Status status = (*execution)->run(inputs, outputs);
    if (!status.ok()) {
      worker.error = status.error().text();
      return;
    }
    if (run == 0) worker.calls_when_warm = worker.memory.calls();
  }
  worker.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / kRuns;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: embed MODEL.rtxgc [--allow-unsigned]\n");
    return 2;
  }
  CountingAllocator shared;
  runtime::LoadOptions options;
  options.allocator = shared.callbacks();
  options.allow_unsigned = argc > 2 && std::strcmp(argv[2], "--allow-unsigned") == 0;
  options.notice = [](std::string_view line) { std::fprintf(stderr, "note: %.*s\n", static_cast<int>(line.size()), line.data()); };

  int exit_code = 0;
  {
    auto loaded = runtime::Program::load(argv[1], options);
    if (!loaded.ok()) {
      std::fprintf(stderr, "%s\n", loaded.error().text().c_str());
      return loaded.error().exit_code();
    }
    const runtime::Program& program = **loaded;

    std::vector<Tensor> inputs;
    std::vector<runtime::Binding> bindings;
    for (const auto& info : program.plan().inputs) {
      inputs.emplace_back(info);
      fill(inputs.back(), static_cast<uint32_t>(inputs.size()));
    }
    for (Tensor& tensor : inputs) bindings.push_back({tensor.name, tensor.view});

    std::vector<Worker> workers(4);
    std::vector<std::thread> threads;
    for (Worker& worker : workers) {
      for (const auto& info : program.plan().outputs) worker.outputs.emplace_back(info);
      threads.emplace_back([&] { run_worker(program, bindings, worker); });
    }
    for (std::thread& thread : threads) thread.join();

    const runtime::LoadReport report = program.report();
    std::printf("verdict %s, load_ms %.2f, constants_ms %.2f\n", report.verdict.c_str(), report.load_ms, report.constants_ms);
    std::printf("file %lld bytes, constants %lld, packed %lld, workspace %lld an execution\n", static_cast<long long>(report.file_bytes),
                static_cast<long long>(report.constant_bytes), static_cast<long long>(report.prepared_bytes), static_cast<long long>(report.arena_bytes));
    for (size_t i = 0; i < workers.size(); ++i) {
      Worker& worker = workers[i];
      if (!worker.error.empty()) {
        std::fprintf(stderr, "thread %zu: %s\n", i, worker.error.c_str());
        exit_code = 1;
        continue;
      }
      bool same = true;
      for (size_t k = 0; k < worker.outputs.size(); ++k) same = same && worker.outputs[k].bytes == workers[0].outputs[k].bytes;
      const bool steady = worker.memory.calls() == worker.calls_when_warm;
      std::printf("thread %zu: %.3f ms a run, %lld allocations, peak %lld bytes, %s after the first run, %s\n", i, worker.milliseconds,
                  static_cast<long long>(worker.memory.calls()), static_cast<long long>(worker.memory.peak()), steady ? "none" : "MORE",
                  same ? "same bytes as thread 0" : "OTHER BYTES than thread 0");
      if (!same || !steady || worker.memory.alive() != 0) exit_code = 1;
    }
  }
  if (shared.alive() != 0) {
    std::fprintf(stderr, "%lld bytes were not given back\n", static_cast<long long>(shared.alive()));
    exit_code = 1;
  }
  return exit_code;
}

// GEMM f32 against OpenBLAS, which is opened at run time where it is installed: interleaved rounds, medians with intervals.
//   --top N    the N candidates with the best estimate, not only the preferred point
//   --weight   B is constant: packed before the timing starts
#include <dlfcn.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "backend/cpu/compile.h"
#include "backend/cpu/device.h"
#include "backend/cpu/dialect.h"
#include "kernels/gemm/gemm.h"
#include "measure/measure.h"

namespace rtx::kernels::gemm {
namespace {

using Sgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                       int ldb, float beta, float* c, int ldc);

double seconds_of(const std::function<Status()>& work, int repeats) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i)
    if (!work().ok()) return NAN;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
}

struct Options {
  int threads = 2, top = 1;
  bool weight = false;
  std::string arch;
};

struct Buffers {
  explicit Buffers(backend::Device& device) : device_(device) {}
  ~Buffers() { for (void* p : all_) device_.release(p); }
  void* add(int64_t bytes) {
    auto memory = device_.allocate(std::max<int64_t>(bytes, 64));
    if (!memory.ok()) return nullptr;
    all_.push_back(*memory);
    return *memory;
  }
  backend::Device& device_;
  std::vector<void*> all_;
};

int shape(const Options& options, backend::Device& device, backend::Compiler& compiler, Sgemm blas, int64_t m, int64_t n, int64_t k) {
  ir::Graph body;
  const auto a = body.add_input("a", ir::DType::f32, ir::to_shape({m, k})), b = body.add_input("b", ir::DType::f32, ir::to_shape({k, n}));
  body.value(b).weight = options.weight;
  body.outputs = {body.add_node(ir::Op::matmul, {a, b})};
  auto problem = Family::problem(body);
  if (!problem.ok()) return std::fprintf(stderr, "%s\n", problem.error().text().c_str()), 1;
  const auto space = Family::space(*problem, device.caps());
  auto points = space.points();
  points.resize(std::min<size_t>(points.size(), size_t(options.top)));

  Buffers memory(device);
  float* in_a = static_cast<float*>(memory.add(m * k * 4));
  float* in_b = static_cast<float*>(memory.add(k * n * 4));
  float* out = static_cast<float*>(memory.add(m * n * 4));
  float* expected = static_cast<float*>(memory.add(m * n * 4));
  for (int64_t i = 0; i < m * k; ++i) in_a[i] = float(i * 7 % 31) / 16 - 1;
  for (int64_t i = 0; i < k * n; ++i) in_b[i] = float(i * 5 % 29) / 16 - 1;
  const double flops = 2.0 * double(m) * double(n) * double(k);
  const int repeats = std::max(1, int(1e8 / flops));

  std::vector<std::unique_ptr<backend::Module>> modules;
  std::vector<std::function<Result<double>()>> subjects;
  std::vector<std::string> names;
  for (const auto& point : points) {
    auto plan = Family::emit(*problem, point, device.caps(), backend::cpu::make_dialect(device.caps()));
    if (!plan.ok()) return std::fprintf(stderr, "%s\n", plan.error().text().c_str()), 1;
    auto binary = compiler.compile({plan->name, plan->text, device.caps().arch, {}, 60});
    if (!binary.ok()) return std::fprintf(stderr, "%s\n", binary.error().text().c_str()), 1;
    auto module = device.load(binary->bytes, plan->name);
    if (!module.ok()) return std::fprintf(stderr, "%s\n", module.error().text().c_str()), 1;
    std::vector<void*> workspace, prepared;
    for (int64_t bytes : plan->workspace_bytes) workspace.push_back(memory.add(bytes));
    for (int64_t bytes : plan->prepared_bytes) prepared.push_back(memory.add(bytes));
    auto launches = [&device, &m = **module, in_a, in_b, out, workspace, prepared](const std::vector<backend::Launch>& steps) {
      std::vector<std::function<Status()>> calls;
      for (const auto& step : steps) {
        auto function = device.function(m, step.entry);
        std::vector<void*> arguments;
        for (const auto& ref : step.arguments) {
          const size_t i = size_t(ref.index);
          arguments.push_back(ref.kind == backend::BufferKind::input ? (i == 0 ? in_a : in_b) : ref.kind == backend::BufferKind::output ? out : ref.kind == backend::BufferKind::workspace ? workspace[i] : prepared[i]);
        }
        calls.push_back([&device, f = *function, step, arguments] {
          return device.launch(f, step.grid, step.group, step.scratch_bytes, arguments.data(), int(arguments.size()), nullptr, step.views);
        });
      }
      return calls;
    };
    for (const auto& call : launches(plan->prepare))
      if (!call().ok()) return 1;
    subjects.push_back([calls = launches(plan->steps), repeats]() -> Result<double> {
      return seconds_of([&]() -> Status {
        for (const auto& call : calls) RTX_CHECK(call());
        return success();
      }, repeats);
    });
    names.push_back(space.text(point));
    modules.push_back(*std::move(module));
  }
  if (blas) {
    names.push_back("OpenBLAS");
    subjects.push_back([=]() -> Result<double> {
      return seconds_of([&]() -> Status {
        blas(101, 111, 111, int(m), int(n), int(k), 1, in_a, int(k), in_b, int(n), 0, expected, int(n));
        return success();
      }, repeats);
    });
  }
  auto samples = measure::interleave(subjects, 41, 3);
  if (!samples.ok()) return 1;
  double difference = 0;
  for (int64_t i = 0; blas && i < m * n; ++i) difference = std::fmax(difference, std::fabs(double(out[i]) - double(expected[i])));
  std::printf("%lldx%lldx%lld %s, %d threads, %s\n", (long long)m, (long long)n, (long long)k, options.weight ? "weight" : "packed in the call",
              options.threads, device.caps().arch.c_str());
  for (size_t i = 0; i < samples->size(); ++i) {
    const auto& s = (*samples)[i];
    std::printf("  %8.1f GFLOP/s [%.1f, %.1f] best %.1f  x %.3f  %s\n", flops / s.median() / 1e9, flops / s.interval_high() / 1e9,
                flops / s.interval_low() / 1e9, flops / s.percentile(0) / 1e9, samples->back().median() / s.median(), names[i].c_str());
  }
  if (blas) std::printf("  largest difference %g\n", difference);
  return 0;
}

}  // namespace

int bench(int argc, char** argv) {
  Options options;
  std::vector<int64_t> sizes;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--weight") options.weight = true;
    else if (word == "--threads" && i + 1 < argc) options.threads = std::atoi(argv[++i]);
    else if (word == "--top" && i + 1 < argc) options.top = std::atoi(argv[++i]);
    else if (word == "--arch" && i + 1 < argc) options.arch = argv[++i];
    else sizes.push_back(std::atoll(argv[i]));
  }
  if (sizes.empty()) sizes = {1024, 1024, 1024, 128, 384, 384, 128, 1536, 384, 128, 384, 1536};
  if (options.arch == "x86-64-v3") setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  Sgemm blas = nullptr;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"})
    if (void* library = blas ? nullptr : dlopen(name, RTLD_NOW)) {
      blas = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
      if (auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"))) set(options.threads);
    }
  auto device = backend::cpu::make_device(options.threads, options.arch);
  backend::cpu::CompilerOptions compile;
  if (const char* path = std::getenv("PATH")) compile.path = path;
  auto compiler = backend::cpu::make_compiler(compile);
  for (size_t i = 0; i + 2 < sizes.size(); i += 3)
    if (int code = shape(options, *device, *compiler, blas, sizes[i], sizes[i + 1], sizes[i + 2])) return code;
  return 0;
}

}  // namespace rtx::kernels::gemm

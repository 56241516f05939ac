// GEMM bf16 on a GPU: variants of the tensor-core loops, checked first, then timed against each other and cuBLAS (opened at run time),
// interleaved in one process: bursts of about 20 ms in shuffled order, medians. With at most 128 rows: recorded launches that go round
// copies of B of 400 MB together, so that B comes from memory.
//   --nvrtc PATH --cublas PATH   libraries or their folders
//   --rounds N                   11
//   --transposes                 all four layouts of each shape, not only A [M, K] with B [N, K]
//   --epilogue NAME              none, bias, gelu, residual
//   --first                      first picks only
//   M N K ...                    shapes; else the usual ones
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "backend/all_compile.h"
#include "backend/all_device.h"
#include "ir/text.h"
#include "kernels/gemm/gemm.h"
#include "measure/measure.h"

namespace rtx::kernels::gemm::gpu {
namespace {

struct Options {
  std::string nvrtc, cublas, epilogue = "none";
  int rounds = 11;
  bool transposes = false, first = false;
};

float value_of(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float out;
  std::memcpy(&out, &wide, 4);
  return out;
}
uint16_t bits_of(float x) {
  uint32_t wide;
  std::memcpy(&wide, &x, 4);
  return uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

// Random numbers of about the normal distribution: power depends on the data.
std::vector<uint16_t> random_matrix(int64_t count, uint64_t seed, float scale = 1) {
  std::vector<uint16_t> table(65536), out(static_cast<size_t>(count));
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  const auto next = [&] {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
  };
  for (auto& x : table) {
    float sum = -6;
    for (int i = 0; i < 12; ++i) sum += float(next() >> 40) * 0x1p-24f;
    x = bits_of(sum * scale);
  }
  for (auto& x : out) x = table[size_t(next() >> 48)];
  return out;
}

// cublasGemmEx on row-major matrices: C = A B with B as [N, K] or [K, N].
struct Cublas {
  using Create = int (*)(void** handle);
  using Gemm = int (*)(void* handle, int trans_a, int trans_b, int m, int n, int k, const void* alpha, const void* a, int type_a, int lda, const void* b, int type_b, int ldb,
                       const void* beta, void* c, int type_c, int ldc, int compute, int algorithm);
  using SetStream = int (*)(void* handle, void* stream);
  void* handle = nullptr;
  Gemm gemm = nullptr;
  SetStream set_stream = nullptr;
  explicit Cublas(const std::string& path) {
    std::vector<std::string> names = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    if (!path.empty()) names.insert(names.begin(), {path, path + "/libcublas.so.13", path + "/libcublas.so.12"});
    for (const auto& name : names)
      if (void* library = dlopen(name.c_str(), RTLD_NOW)) {
        const auto create = reinterpret_cast<Create>(dlsym(library, "cublasCreate_v2"));
        gemm = reinterpret_cast<Gemm>(dlsym(library, "cublasGemmEx"));
        set_stream = reinterpret_cast<SetStream>(dlsym(library, "cublasSetStream_v2"));
        if (create && gemm && set_stream && create(&handle) == 0) return;
      }
    handle = nullptr;
  }
  int run(int64_t m, int64_t n, int64_t k, int transposed, const void* a, const void* b, void* c) const {
    const float one = 1, zero = 0;
    constexpr int bf16 = 14, f32_compute = 68;
    return gemm(handle, transposed & 2 ? 1 : 0, transposed & 1 ? 1 : 0, int(n), int(m), int(k), &one, b, bf16, int(transposed & 2 ? k : n), a, bf16, int(transposed & 1 ? m : k), &zero, c, bf16,
                int(n), f32_compute, -1);
  }
};

struct Bench {
  Options options;
  std::shared_ptr<backend::Device> device;
  std::unique_ptr<backend::Compiler> compiler;
  codegen::Dialect dialect;
  std::unique_ptr<Cublas> blas;
  int faults = 0;

  std::string body(int64_t m, int64_t n, int64_t k, int t) const {
    const auto shape = [](int64_t r, int64_t c, bool turned) { return "bf16[" + std::to_string(turned ? c : r) + "," + std::to_string(turned ? r : c) + "]"; };
    const std::string N = std::to_string(n);
    std::string more = "; y = matmul(a, b, trans_a=" + std::to_string(t & 1) + ", trans_b=" + std::to_string(t >> 1) + "); ", out = "y", extra;
    if (options.epilogue != "none") extra = "; c: bf16[" + N + "]", more += "z = add(y, c); ", out = "z";
    if (options.epilogue == "gelu") more += "g = gelu(z, tanh=1); ", out = "g";
    if (options.epilogue == "residual") extra += "; r: bf16[" + std::to_string(m) + "," + N + "]", more += "g = add(z, r); ", out = "g";
    return "a: " + shape(m, k, t & 1) + "; b: " + shape(k, n, t & 2) + extra + more + "return " + out;
  }
  int shape(int64_t m, int64_t n, int64_t k, int transposed);
};

struct Buffer {
  backend::Device& device;
  void* at = nullptr;
  Buffer(backend::Device& d, int64_t bytes) : device(d) {
    auto memory = d.allocate(std::max<int64_t>(bytes, 256));
    if (memory.ok()) at = *memory;
  }
  ~Buffer() { if (at) device.release(at); }
  Buffer(const Buffer&) = delete;
};

double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

int Bench::shape(int64_t m, int64_t n, int64_t k, int t) {
  const auto bound = Family::problem(ir::parse_or_die(body(m, n, k, t)));
  if (!bound.ok()) return std::fprintf(stderr, "%s\n", bound.error().text().c_str()), 1;
  const auto space = Family::space(*bound, device->caps());
  const auto all = space.points();
  // The first picks, and of each block and schedule the best.
  std::vector<Params> points;
  std::set<std::string> kinds;
  const bool few = m <= 128;
  std::map<int64_t, int> of_loop;
  for (const auto& x : all) {
    if (few && ++of_loop[x.loop] > 400) continue;
    const std::string kind = std::to_string(x.loop) + " " + std::to_string(x.block_m) + "x" + std::to_string(x.block_n) + " " + std::to_string(x.schedule) + " " + std::to_string(x.split);
    const auto same_loop = std::count_if(points.begin(), points.end(), [&](const Params& y) { return y.loop == x.loop; });
    if (points.size() < (few ? 12u : 8u) && (!few || same_loop < 4) && kinds.insert(kind).second && (points.empty() || !options.first)) points.push_back(x);
  }
  Params old = {.loop = int64_t(Loop::mma), .block_m = 128, .block_n = 128, .block_k = 64, .waves_m = 2, .waves_n = 2, .stages = 3};
  if (space.broken_rule(old).empty() && !options.first) points.push_back(old);

  const auto host_a = random_matrix(m * k, 1), host_b = random_matrix(k * n, 2, 0.05f), host_c = random_matrix(n, 3), host_r = random_matrix(options.epilogue == "residual" ? m * n : 1, 4);
  Buffer a(*device, m * k * 2), b(*device, k * n * 2), c(*device, n * 2), r(*device, int64_t(host_r.size()) * 2), out(*device, m * n * 2), other(*device, m * n * 2);
  if (!a.at || !b.at || !c.at || !r.at || !out.at || !other.at) return std::fprintf(stderr, "no memory\n"), 1;
  for (const auto& [to, from] : {std::pair(&a, &host_a), {&b, &host_b}, {&c, &host_c}, {&r, &host_r}})
    if (!device->copy_in(to->at, from->data(), int64_t(from->size()) * 2, nullptr).ok()) return 1;
  const double flops = 2.0 * double(m) * double(n) * double(k);
  const int64_t bytes_b = k * n * 2;
  std::vector<std::unique_ptr<Buffer>> copies;
  std::vector<void*> all_b = {b.at};
  for (int64_t total = bytes_b; few && total < 400'000'000 && copies.size() < 63; total += bytes_b) {
    copies.push_back(std::make_unique<Buffer>(*device, bytes_b));
    if (!copies.back()->at || !device->copy_in(copies.back()->at, host_b.data(), bytes_b, nullptr).ok()) return 1;
    all_b.push_back(copies.back()->at);
  }
  const int burst = few ? int(all_b.size()) * (all_b.size() < 16 ? 4 : 2) : std::clamp(int(0.02 / (flops / 6e14 + 4e-6)), 1, 400);
  // Seconds of one of `burst` launches; the i-th takes copy i of B.
  const auto timed = [&](std::function<Status(backend::Stream, int)> launch) -> std::function<Result<double>()> {
    if (!few)
      return [launch, burst, d = device]() -> Result<double> {
        RTX_TRY(const double seconds, d->time(nullptr, [&]() -> Status {
          for (int i = 0; i < burst; ++i) RTX_CHECK(launch(nullptr, 0));
          return success();
        }));
        return seconds / burst;
      };
    auto recording = std::make_shared<std::unique_ptr<backend::Recording>>();
    return [launch, burst, recording, count = int(all_b.size()), d = device]() -> Result<double> {
      if (!*recording) {
        RTX_TRY(*recording, d->capture([=](backend::Stream stream) -> Status {
          for (int i = 0; i < burst; ++i) RTX_CHECK(launch(stream, i % count));
          return success();
        }));
      }
      RTX_TRY(const double seconds, d->time(nullptr, [&] { return d->replay(**recording, nullptr); }));
      return seconds / burst;
    };
  };

  std::vector<std::unique_ptr<backend::Module>> modules;
  std::vector<std::unique_ptr<Buffer>> workspaces;
  std::vector<std::function<Result<double>()>> subjects;
  std::vector<std::string> names;
  std::vector<uint16_t> found(static_cast<size_t>(m * n)), first;
  std::string class_of_first;
  for (const auto& point : points) {
    auto plan = Family::emit(*bound, point, device->caps(), dialect);
    if (!plan.ok()) return std::fprintf(stderr, "%s\n", plan.error().text().c_str()), 1;
    auto binary = compiler->compile({plan->name, plan->text, device->caps().arch, {}, 60});
    if (!binary.ok()) {
      std::printf("  does not compile: %s\n%s\n", space.text(point).c_str(), binary.error().text().c_str());
      ++faults;
      continue;
    }
    auto module = device->load(binary->bytes, plan->name);
    if (!module.ok()) return std::fprintf(stderr, "%s\n", module.error().text().c_str()), 1;
    modules.push_back(*std::move(module));
    std::vector<void*> workspace;
    for (const int64_t bytes : plan->workspace_bytes) workspaces.push_back(std::make_unique<Buffer>(*device, bytes)), workspace.push_back(workspaces.back()->at);
    struct Call {
      backend::Function function;
      backend::Launch launch;
      std::vector<void*> arguments;
    };
    std::vector<Call> calls;
    for (const auto& step : plan->steps) {
      auto function = device->function(*modules.back(), step.entry);
      if (!function.ok()) return std::fprintf(stderr, "%s\n", function.error().text().c_str()), 1;
      Call call{*function, step, {}};
      void* const inputs[] = {a.at, b.at, c.at, r.at};
      for (const auto& ref : step.arguments)
        call.arguments.push_back(ref.kind == backend::BufferKind::input ? inputs[ref.index] : ref.kind == backend::BufferKind::output ? out.at : workspace[size_t(ref.index)]);
      calls.push_back(std::move(call));
    }
    const auto once = [calls, all_b, d = device](backend::Stream stream, int copy) -> Status {
      for (const auto& call : calls) {
        auto arguments = call.arguments;
        for (auto& at : arguments)
          if (at == all_b[0]) at = all_b[size_t(copy)];
        RTX_CHECK(d->launch(call.function, call.launch.grid, call.launch.group, call.launch.scratch_bytes, arguments.data(), int(arguments.size()), stream, call.launch.views));
      }
      return success();
    };
    // Poisoned with NaN, run, compared in samples with double, and whole with the first of its numerics class.
    if (!device->fill(out.at, std::byte{0xff}, m * n * 2, nullptr).ok()) return 1;
    Status ran = once(nullptr, 0);
    if (ran.ok()) ran = device->synchronize(nullptr);
    if (!ran.ok()) return std::fprintf(stderr, "%s: %s\n", space.text(point).c_str(), ran.error().text().c_str()), 1;
    if (!device->copy_out(found.data(), out.at, m * n * 2, nullptr).ok() || !device->synchronize(nullptr).ok()) return 1;
    int64_t wrong = 0, differ = 0;
    uint64_t state = 12345;
    for (int s = 0; s < 1500; ++s) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const int64_t i = int64_t(state >> 33) % m, j = s % 3 == 0 ? n - 1 - int64_t(state >> 12 & 63) % n : int64_t(state >> 20 & 0xffffffff) % n;
      double sum = 0;
      for (int64_t q = 0; q < k; ++q) sum += double(value_of(host_a[size_t(t & 1 ? q * m + i : i * k + q)])) * double(value_of(host_b[size_t(t & 2 ? j * k + q : q * n + j)]));
      if (options.epilogue != "none") sum += double(value_of(host_c[size_t(j)]));
      if (options.epilogue == "gelu") sum = gelu(sum);
      if (options.epilogue == "residual") sum += double(value_of(host_r[size_t(i * n + j)]));
      const double got = double(value_of(found[size_t(i * n + j)]));
      if (!(std::fabs(got - sum) <= 0.005 * std::fabs(sum) + 2e-4 * std::sqrt(double(k)))) ++wrong;
    }
    if (point.loop == int64_t(Loop::wgmma) && point.split == 1) {
      if (first.empty()) first = found;
      for (size_t i = 0; i < found.size(); ++i) differ += found[i] != first[i];
    }
    if (wrong || differ) std::printf("  WRONG: %lld of 1500 samples, %lld elements unlike the first: %s\n", (long long)wrong, (long long)differ, space.text(point).c_str()), ++faults;
    names.push_back(space.text(point));
    subjects.push_back(timed(once));
  }
  if (blas && blas->handle && options.epilogue == "none") {
    names.push_back("cuBLAS");
    subjects.push_back(timed([&](backend::Stream stream, int copy) -> Status {
      blas->set_stream(blas->handle, stream);
      if (blas->run(m, n, k, t, a.at, all_b[size_t(copy)], other.at) != 0) return user_error("cublasGemmEx failed");
      return success();
    }));
  }
  auto samples = measure::interleave(subjects, options.rounds, 2);
  if (!samples.ok()) return std::fprintf(stderr, "%s\n", samples.error().text().c_str()), 1;
  const auto now = device->conditions();
  std::printf("%lldx%lldx%lld %s%s, bursts of %d, %d MHz %.0f W\n", (long long)m, (long long)n, (long long)k, t & 1 ? "T" : "N", t & 2 ? "T" : "N", burst, now.ok() ? now->core_mhz : 0,
              now.ok() ? now->watts : 0.0);
  const double peer = names.back() == "cuBLAS" ? samples->back().median() : NAN;
  for (size_t i = 0; i < samples->size(); ++i) {
    const double seconds = (*samples)[i].median();
    std::printf("  %7.1f TFLOP/s %9.2f us %5.2f TB/s  x %.3f  %s\n", flops / seconds / 1e12, seconds * 1e6, double(bytes_b + m * k * 2 + m * n * 2) / seconds / 1e12, peer / seconds,
                names[i].c_str());
  }
  std::fflush(stdout);
  return 0;
}

}  // namespace

int bench(int argc, char** argv) {
  Bench bench;
  std::vector<int64_t> sizes;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--nvrtc" && more) bench.options.nvrtc = argv[++i];
    else if (word == "--cublas" && more) bench.options.cublas = argv[++i];
    else if (word == "--epilogue" && more) bench.options.epilogue = argv[++i];
    else if (word == "--rounds" && more) bench.options.rounds = std::atoi(argv[++i]);
    else if (word == "--transposes") bench.options.transposes = true;
    else if (word == "--first") bench.options.first = true;
    else sizes.push_back(std::atoll(argv[i]));
  }
  if (sizes.empty())
    sizes = {264, 328, 200, 4096, 4096, 4096, 8192, 8192, 8192, 8192, 12288, 4096, 4096, 4096, 16384, 3000, 5000, 4096, 512, 512, 512, 1024, 1024, 1024, 2048, 2048, 2048};
  for (const auto& side : backend::all_devices())
    if (side.target == "cuda") {
      if (auto here = side.identify(0, 0); !here.ok()) return std::fprintf(stderr, "%s\n", here.error().text().c_str()), 1;
      if (auto device = side.device(0, "", 0); device.ok()) bench.device = *device;
    }
  if (!bench.device) return std::fprintf(stderr, "this build has no target cuda\n"), 1;
  for (const auto& side : backend::all_compilers())
    if (side.target == "cuda") {
      backend::CompileSettings settings;
      settings.nvrtc = bench.options.nvrtc;
      if (const char* nvrtc = std::getenv("RTX_NVRTC"); nvrtc && settings.nvrtc.empty()) settings.nvrtc = nvrtc;
      bench.compiler = side.compiler(settings);
      bench.dialect = side.dialect(bench.device->caps());
    }
  if (auto ready = bench.device->make_ready(); !ready.ok()) return std::fprintf(stderr, "%s\n", ready.error().text().c_str()), 1;
  bench.blas = std::make_unique<Cublas>(bench.options.cublas);
  std::printf("%s, cuBLAS %s, epilogue %s\n", bench.device->caps().device.c_str(), bench.blas->handle ? "found" : "not found", bench.options.epilogue.c_str());
  for (size_t i = 0; i + 2 < sizes.size(); i += 3)
    for (int t = 0; t < 4; ++t)
      if (t == 2 || bench.options.transposes)
        if (const int code = bench.shape(sizes[i], sizes[i + 1], sizes[i + 2], t)) return code;
  std::printf("%d faults\n", bench.faults);
  return bench.faults ? 1 : 0;
}

}  // namespace rtx::kernels::gemm::gpu

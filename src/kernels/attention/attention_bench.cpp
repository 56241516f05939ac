// Attention on a GPU: candidates of one shape, checked by sampled rows and timed in interleaved rounds.
//
//   rtx_kernels_bench attention [--target T] [--top N] [--parameters TEXT]... [--rounds N] [--check-only] SHAPE...
//   SHAPE: batch,query heads,key heads,queries,keys,depth,type[,causal[,offset]]   as in 4,32,32,2048,2048,128,bf16,causal
//
// TFLOP/s count 4 queries keys depth a head, half of it under a causal mask, as others do.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/all_compile.h"
#include "backend/all_device.h"
#include "base/text.h"
#include "ir/dtype.h"
#include "ir/text.h"
#include "kernels/attention/attention.h"
#include "measure/measure.h"

namespace rtx::kernels::attention {
namespace {

struct Shape {
  int64_t batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, depth = 64, offset = 0;
  std::string type = "bf16";
  bool causal = false;
};
struct Options {
  std::string target = "cuda";
  size_t top = 1;
  int rounds = 7;
  bool check_only = false;
  std::vector<std::string> parameters;
};

bool parse_shape(const std::string& text, Shape* out) {
  const auto parts = split(text, ',');
  if (parts.size() < 7) return false;
  int64_t* const numbers[] = {&out->batch, &out->heads, &out->key_heads, &out->queries, &out->keys, &out->depth};
  for (size_t k = 0; k < 6; ++k)
    if (!parse_int(parts[k], *numbers[k])) return false;
  out->type = parts[6];
  out->causal = parts.size() > 7 && parts[7] == "causal";
  return parts.size() < 9 || parse_int(parts[8], out->offset);
}

std::string body_of(const Shape& s) {
  const auto operand = [&](const char* name, int64_t heads, int64_t rows) {
    return std::string(name) + ": " + s.type + "[" + std::to_string(s.batch) + "," + std::to_string(heads) + "," + std::to_string(rows) + "," + std::to_string(s.depth) + "]; ";
  };
  return operand("q", s.heads, s.queries) + operand("k", s.key_heads, s.keys) + operand("v", s.key_heads, s.keys) + "a = attention(q, k, v, scale=" + std::to_string(1 / std::sqrt(double(s.depth))) +
         (s.causal ? ", causal=1, causal_offset=" + std::to_string(s.offset) : "") + "); return a";
}

using Halves = std::vector<uint16_t>;
Halves random_halves(int64_t count, bool bf16, uint64_t seed) {
  // A table of normal numbers, read at random places: as good, and a hundred times as fast.
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  uint16_t table[65536];
  for (auto& x : table) x = bf16 ? ir::f32_to_bf16(normal(random)) : ir::f32_to_f16(normal(random));
  Halves out(static_cast<size_t>(count));
  uint64_t state = seed * 2 + 1;
  for (auto& x : out) x = table[(state = state * 6364136223846793005ull + 1442695040888963407ull) >> 48];
  return out;
}

// The largest of relative errors of sampled rows, in the norm of a row; infinite where a result is no number.
double sampled_error(const Shape& s, const Halves& q, const Halves& k, const Halves& v, const Halves& got) {
  const bool bf16 = s.type == "bf16";
  const auto number = [&](uint16_t x) -> double { return bf16 ? ir::bf16_to_f32(x) : ir::f16_to_f32(x); };
  std::mt19937_64 random(7);
  double worst = 0;
  std::vector<double> scores(static_cast<size_t>(s.keys)), row(static_cast<size_t>(s.depth));
  for (int sample = 0; sample < 96; ++sample) {
    const auto draw = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    // The last and the first rows among them, whose tiles are ragged and masked.
    const int64_t b = draw(s.batch), h = draw(s.heads), i = sample < 8 ? std::max<int64_t>(0, s.queries - 1 - sample) : sample < 16 ? std::min<int64_t>(s.queries - 1, sample - 8) : draw(s.queries);
    const int64_t kv = (b * s.key_heads + h / (s.heads / s.key_heads)) * s.keys * s.depth, at = ((b * s.heads + h) * s.queries + i) * s.depth;
    const int64_t end = s.causal ? std::clamp<int64_t>(i + s.offset + 1, 0, s.keys) : s.keys;
    double most = -INFINITY, total = 0, difference = 0, norm = 0;
    for (int64_t j = 0; j < end; ++j) {
      double sum = 0;
      for (int64_t d = 0; d < s.depth; ++d) sum += number(q[size_t(at + d)]) * number(k[size_t(kv + j * s.depth + d)]);
      most = std::max(most, scores[size_t(j)] = sum / std::sqrt(double(s.depth)));
    }
    std::fill(row.begin(), row.end(), 0.0);
    for (int64_t j = 0; j < end; ++j) {
      const double weight = std::exp(scores[size_t(j)] - most);
      total += weight;
      for (int64_t d = 0; d < s.depth; ++d) row[size_t(d)] += weight * number(v[size_t(kv + j * s.depth + d)]);
    }
    for (int64_t d = 0; d < s.depth; ++d) {
      const double expected = total == 0 ? 0 : row[size_t(d)] / total, x = number(got[size_t(at + d)]);
      if (!(std::fabs(x) < 1e30)) return INFINITY;
      difference += (x - expected) * (x - expected);
      norm += expected * expected;
    }
    worst = std::max(worst, std::sqrt(difference / std::max(norm, 1e-30)));
  }
  return worst;
}

struct Rig {
  std::shared_ptr<backend::Device> device;
  std::unique_ptr<backend::Compiler> compiler;
  codegen::Dialect dialect;
};

class Memory {
 public:
  explicit Memory(backend::Device& device) : device_(device) {}
  ~Memory() { for (void* p : all_) device_.release(p); }
  void* add(int64_t bytes) {
    auto memory = device_.allocate(std::max<int64_t>(bytes, 64));
    if (!memory.ok()) return nullptr;
    all_.push_back(*memory);
    return *memory;
  }

 private:
  backend::Device& device_;
  std::vector<void*> all_;
};

int fail(const Error& error) {
  std::printf("  failed: %s\n", error.text().c_str());
  return 1;
}

int run_shape(const Options& options, Rig& rig, const std::string& text) {
  Shape s;
  if (!parse_shape(text, &s)) return std::fprintf(stderr, "not a shape: %s\n", text.c_str()), 2;
  const auto body = ir::parse(body_of(s));
  if (!body.ok()) return fail(body.error());
  const auto problem = Attention::problem(*body);
  if (!problem.ok()) return fail(problem.error());
  backend::Device& device = *rig.device;
  const auto space = Attention::space(*problem, device.caps());
  std::vector<Params> points;
  for (const auto& parameters : options.parameters) {
    Params at;
    if (!space.parse(parameters, &at)) return std::fprintf(stderr, "not parameters: %s\n", parameters.c_str()), 2;
    if (const auto rule = space.broken_rule(at); rule.empty()) points.push_back(at);
    else std::printf("  %s: excluded, %s\n", space.text(at).c_str(), rule.c_str());
  }
  if (options.parameters.empty()) {
    points = space.points();
    points.resize(std::min(points.size(), options.top));
  }
  std::printf("%s\n", text.c_str());

  const bool bf16 = s.type == "bf16";
  const int64_t q_count = s.batch * s.heads * s.queries * s.depth, k_count = s.batch * s.key_heads * s.keys * s.depth;
  const Halves q = random_halves(q_count, bf16, 1), k = random_halves(k_count, bf16, 2), v = random_halves(k_count, bf16, 3);
  Halves got(static_cast<size_t>(q_count));
  Memory memory(device);
  void* const inputs[] = {memory.add(q_count * 2), memory.add(k_count * 2), memory.add(k_count * 2)};
  void* const output = memory.add(q_count * 2);
  if (!output || !device.copy_in(inputs[0], q.data(), q_count * 2, nullptr).ok() || !device.copy_in(inputs[1], k.data(), k_count * 2, nullptr).ok() ||
      !device.copy_in(inputs[2], v.data(), k_count * 2, nullptr).ok())
    return std::fprintf(stderr, "no memory\n"), 1;

  std::vector<std::unique_ptr<backend::Module>> modules;
  std::vector<std::function<Result<double>()>> subjects;
  std::vector<std::string> names;
  int code = 0;
  for (const auto& point : points) {
    auto plan = Attention::emit(*problem, point, device.caps(), rig.dialect);
    if (!plan.ok()) return fail(plan.error());
    auto binary = rig.compiler->compile({plan->name, plan->text, device.caps().arch, {}, 60});
    if (!binary.ok()) {
      std::printf("  %s: %s\n", space.text(point).c_str(), binary.error().why.c_str());
      continue;
    }
    auto module = device.load(binary->bytes, plan->name);
    if (!module.ok()) return fail(module.error());
    std::vector<void*> workspace;
    for (const int64_t bytes : plan->workspace_bytes) workspace.push_back(memory.add(bytes));
    std::vector<std::function<Status()>> calls;
    for (const auto& step : plan->steps) {
      auto function = device.function(**module, step.entry);
      if (!function.ok()) return fail(function.error());
      std::vector<void*> arguments;
      for (const auto& ref : step.arguments)
        arguments.push_back(ref.kind == backend::BufferKind::input ? inputs[ref.index] : ref.kind == backend::BufferKind::output ? output : workspace[static_cast<size_t>(ref.index)]);
      calls.push_back([&device, f = *function, step, arguments] {
        return device.launch(f, step.grid, step.group, step.scratch_bytes, arguments.data(), static_cast<int>(arguments.size()), nullptr, step.views);
      });
    }
    const auto once = [calls]() -> Status {
      for (const auto& call : calls) RTX_CHECK(call());
      return success();
    };
    if (auto done = device.fill(output, std::byte{0xff}, q_count * 2, nullptr); !done.ok()) return fail(done.error());
    if (auto done = once(); !done.ok()) return fail(done.error());
    if (auto done = device.synchronize(nullptr); !done.ok()) return fail(done.error());
    if (auto done = device.copy_out(got.data(), output, q_count * 2, nullptr); !done.ok()) return fail(done.error());
    const double error = sampled_error(s, q, k, v, got);
    const bool good = error < (bf16 ? 1.5e-2 : 2e-3);
    if (!good) code = 1;
    std::printf("  %-62s relative error %.2e%s\n", space.text(point).c_str(), error, good ? "" : "  WRONG");
    std::fflush(stdout);
    modules.push_back(*std::move(module));
    if (!good) continue;
    names.push_back(space.text(point));
    // Long enough a sample for the clock to settle: some 20 ms.
    subjects.push_back([&device, once, repeats = std::make_shared<int>(0)]() -> Result<double> {
      if (*repeats == 0) {
        RTX_TRY(const double first, device.time(nullptr, once));
        *repeats = std::clamp(static_cast<int>(0.02 / std::max(first, 1e-6)), 1, 500);
      }
      RTX_TRY(const double seconds, device.time(nullptr, [&]() -> Status {
                for (int r = 0; r < *repeats; ++r) RTX_CHECK(once());
                return success();
              }));
      return seconds / *repeats;
    });
  }
  if (options.check_only || subjects.empty()) return code;
  auto samples = measure::interleave(subjects, options.rounds, 1);
  if (!samples.ok()) return fail(samples.error());
  const double flops = 4.0 * double(s.batch * s.heads) * double(s.queries) * double(s.keys) * double(s.depth) * (s.causal && s.queries > 1 ? 0.5 : 1.0);
  const double bytes = 4.0 * double(q_count + k_count);
  for (size_t n = 0; n < names.size(); ++n) {
    const double median = (*samples)[n].median();
    std::printf("  %-62s %9.4f ms [%.4f, %.4f]  %7.1f TFLOP/s  %7.1f GB/s\n", names[n].c_str(), median * 1e3, (*samples)[n].interval_low() * 1e3, (*samples)[n].interval_high() * 1e3, flops / median / 1e12,
                bytes / median / 1e9);
  }
  std::fflush(stdout);
  return code;
}

}  // namespace

int bench(int argc, char** argv) {
  Options options;
  std::vector<std::string> shapes;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--target" && more) options.target = argv[++i];
    else if (word == "--top" && more) options.top = static_cast<size_t>(std::atoll(argv[++i]));
    else if (word == "--parameters" && more) options.parameters.emplace_back(argv[++i]);
    else if (word == "--rounds" && more) options.rounds = std::atoi(argv[++i]);
    else if (word == "--check-only") options.check_only = true;
    else shapes.push_back(word);
  }
  Rig rig;
  for (const auto& side : backend::all_devices()) {
    if (side.target != options.target) continue;
    if (auto here = side.identify(2, 0); !here.ok()) return std::fprintf(stderr, "%s\n", here.error().text().c_str()), 4;
    if (auto device = side.device(2, "", 0); device.ok()) rig.device = *device;
  }
  for (const auto& side : backend::all_compilers()) {
    if (side.target != options.target || !rig.device) continue;
    backend::CompileSettings settings;
    if (const char* path = std::getenv("PATH")) settings.path = path;
    if (const char* nvrtc = std::getenv("RTX_NVRTC")) settings.nvrtc = nvrtc;
    rig.compiler = side.compiler(settings);
    rig.dialect = side.dialect(rig.device->caps());
  }
  if (!rig.compiler) return std::fprintf(stderr, "no target %s here\n", options.target.c_str()), 4;
  int code = 0;
  for (const auto& shape : shapes) code = std::max(code, run_shape(options, rig, shape));
  return code;
}

}  // namespace rtx::kernels::attention

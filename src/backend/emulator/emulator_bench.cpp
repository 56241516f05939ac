// What emulation costs: barriers, shuffles, a tile of matrix instructions, a ring of boxes under products, and compiling. Prints a line each.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "backend/conformance/hopper_kernels.h"
#include "backend/emulator/compile.h"
#include "backend/emulator/device.h"
#include "backend/emulator/dialect.h"
#include "codegen/source.h"

namespace rtx::backend::emulator {
namespace {

const char* const kBenchKernels = R"(
KERNEL(barriers, 0, 256, 1) { for (int k = 0; k < 1000; ++k) barrier(); }
KERNEL(shuffles, 1, 256, 1) {
  i32 x = thread();
  for (int k = 0; k < 1000; ++k) x = shuffle_xor(x, 1 + k % 31);
  ARG(i32, 0)[thread()] = x;
}
KERNEL(nothing, 0, 256, 1) {}
// c = a b, 128 x 128 x 128: a row major, b as [column][depth]; 8 waves of 32 x 64, stages of depth 32
KERNEL(tile, 3, 256, 1) {
  bf16* const sa = static_cast<bf16*>(scratch);
  bf16* const sb = sa + 128 * 40;
  const int t = thread(), l = wave_lane(), w = wave(), row = w / 2 * 32, column = w % 2 * 64;
  f32 d[2][8][4] = {};
  for (int k = 0; k < 128; k += 32) {
    for (int c = t; c < 512; c += 256) {
      copy_async<16>(sa + c / 4 * 40 + c % 4 * 8, ARG(const bf16, 0) + c / 4 * 128 + k + c % 4 * 8);
      copy_async<16>(sb + c / 4 * 40 + c % 4 * 8, ARG(const bf16, 1) + c / 4 * 128 + k + c % 4 * 8);
    }
    copy_async_commit();
    copy_async_wait<0>();
    barrier();
    for (int kk = 0; kk < 32; kk += 16) {
      u32 a[2][4], b[8][2];
      for (int i = 0; i < 2; ++i) load_matrix(a[i], sa + (row + i * 16 + l % 16) * 40 + kk + l / 16 * 8);
      for (int j = 0; j < 8; ++j) load_matrix(b[j], sb + (column + j * 8 + l % 8) * 40 + kk + l / 8 % 2 * 8);
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 8; ++j) mma_16x8x16(d[i][j], a[i], b[j], bf16{});
    }
    barrier();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 8; ++j)
      for (int e = 0; e < 4; ++e) ARG(f32, 2)[(row + i * 16 + l / 4 + e / 2 * 8) * 128 + column + j * 8 + l % 4 * 2 + e % 2] = d[i][j][e];
}
)";

double seconds_since(std::chrono::steady_clock::time_point start) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }

int run(const std::string& level) {
  Options options;
  options.threads = 1;
  const auto device = *make_device(options);
  codegen::Source source(make_dialect(device->caps()), "bench", "backend/emulator/emulator_bench.cpp", "none", "0 Mflop");
  source.line(kBenchKernels);
  source.line(conformance::kRingKernel);
  cpu::CompilerOptions settings;
  if (const char* path = std::getenv("PATH")) settings.path = path;
  settings.flags = {level};
  const auto compiler = emulator::make_compiler(settings);
  const std::string text = source.take();
  double compile = 1e9;
  Result<Binary> binary = compiler->compile({"bench", text, "sm_90a", {}, 60});
  for (int k = 0; k < 3; ++k) {
    const auto start = std::chrono::steady_clock::now();
    binary = compiler->compile({"bench", text, "sm_90a", {}, 60});
    compile = std::min(compile, seconds_since(start));
  }
  if (!binary.ok()) return std::printf("%s\n", binary.error().text().c_str()), 1;
  std::printf("%s: compile %.0f ms\n", level.c_str(), compile * 1e3);
  const auto module = *device->load(binary->bytes, "bench");
  void* const memory = *device->allocate(1 << 17);
  (void)device->fill(memory, std::byte{0}, 1 << 17, nullptr);
  const auto time = [&](const char* name, int64_t scratch, int count, int64_t groups = 1) {
    void* const arguments[] = {memory, memory, static_cast<std::byte*>(memory) + (1 << 16)};
    double best = 1e9;
    for (int k = 0; k < 5; ++k) {
      const auto start = std::chrono::steady_clock::now();
      const Status done = device->launch(*device->function(*module, name), {groups, 1, 1}, {256, 1, 1}, scratch, arguments, count, nullptr);
      if (!done.ok()) std::printf("%s\n", done.error().text().c_str());
      best = std::min(best, seconds_since(start));
    }
    std::printf("  %-10s %8.3f ms\n", name, best * 1e3);
  };
  time("nothing", 0, 0);
  time("nothing", 0, 0, 1000);
  time("barriers", 0, 0);
  time("shuffles", 0, 1);
  time("tile", 2 * 128 * 40 * 2, 3);
  // 128 x 128 x 64 steps: one, and a sixteenth of what sixteen more take.
  const auto ring = [&](int steps) {
    TensorView view;
    view.element = ViewElement::bf16, view.swizzle = 128;
    view.extents = {64 * steps, 128}, view.strides_bytes = {128 * steps}, view.box = {64, 128};
    TensorView out = view;
    out.argument = 1, out.extents = {128, 128}, out.strides_bytes = {256}, out.box = {64, 64};
    const int32_t numbers[] = {1, steps};
    void* const place = *device->allocate(sizeof numbers);
    void* const large = *device->allocate(128 * 128 * steps);
    (void)device->copy_in(place, numbers, sizeof numbers, nullptr);
    (void)device->fill(large, std::byte{0}, 128 * 128 * steps, nullptr);
    void* const arguments[] = {large, memory, memory, place};
    double best = 1e9;
    for (int k = 0; k < 5; ++k) {
      const auto start = std::chrono::steady_clock::now();
      const Status done = device->launch(*device->function(*module, "ring"), {1, 1, 1}, {384, 1, 1}, conformance::kRingScratch, arguments, 4, nullptr, std::vector<TensorView>{view, view, out});
      if (!done.ok()) std::printf("%s\n", done.error().text().c_str());
      best = std::min(best, seconds_since(start));
    }
    device->release(place);
    device->release(large);
    return best;
  };
  const double one = ring(1), more = ring(17);
  std::printf("  %-10s %8.3f ms, %.3f ms a further step\n", "ring", one * 1e3, (more - one) * 1e3 / 16);
  device->release(memory);
  return 0;
}

}  // namespace
}  // namespace rtx::backend::emulator

int main() {
  int wrong = 0;
  for (const char* level : {"-O0", "-O1", "-O2", "-O3"}) wrong |= rtx::backend::emulator::run(level);
  return wrong;
}

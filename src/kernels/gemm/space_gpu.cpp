// The parameter space on GPUs: the main loop, the block of a group, its waves, and how many groups share K.
#include <algorithm>
#include <cmath>

#include "kernels/gemm/gpu.h"

namespace rtx::kernels::gemm::gpu {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

constexpr int64_t kStreamedRows = 8, kMmaStreamedRows = 32, kWave = 32;

bool is_half(ir::DType dtype) { return dtype == ir::DType::f16 || dtype == ir::DType::bf16; }
bool may_use_mma(const Problem& p, const backend::Caps& caps) {
  return p.k > 0 && is_half(p.a.dtype) && p.a.dtype == p.b.dtype && caps.has("mma") && caps.has("ldmatrix") && caps.has("cp_async");
}
bool may_stream(const Problem& p) { return p.k > 0 && p.m <= kStreamedRows && (p.b.row_stride == 1 || p.b.column_stride == 1); }

// Mirrors MmaStream in device_mma_stream.h; the lines of A and B are whole pieces of 8.
bool may_mma_stream(const Problem& p, const backend::Caps& caps) {
  if (p.k <= 0 || p.m > kMmaStreamedRows || !is_half(p.a.dtype) || p.a.dtype != p.b.dtype || !caps.has("mma")) return false;
  const bool along_k = p.b.row_stride == 1, along_n = p.b.column_stride == 1;
  return p.k % 8 == 0 && p.a.column_stride == 1 && p.a.row_stride % 8 == 0 &&
         ((along_k && p.b.column_stride % 8 == 0) || (!along_k && along_n && p.b.row_stride % 8 == 0 && p.n % 8 == 0));
}
struct MmaStreamShape {
  int64_t tiles, step, row_tiles, bytes_a, bytes_b;  // bytes: of a thread's loads in one step
};
MmaStreamShape mma_stream_shape(const Problem& p, const Params& x) {
  const bool along_k = p.b.row_stride == 1;
  const int64_t tiles = x.block_n / std::max<int64_t>(1, x.waves_n) / 8, row_tiles = ceil_div(std::max<int64_t>(p.m, 1), 16);
  return {tiles, along_k ? 64 : 32, row_tiles, row_tiles * (p.m <= 8 ? 1 : 2) * (along_k ? 2 : 1) * 16, along_k ? tiles * 32 : tiles * 16};
}

// What a thread of the streaming loop has; mirrors Stream in device_gpu_stream.h.
struct StreamShape {
  int64_t width, columns, across;
};
StreamShape stream_shape(const Problem& p, const Params& x) {
  const int64_t width = 16 / ir::bytes_of(p.b.dtype);
  if (p.b.row_stride == 1) return {width, x.block_n / std::max<int64_t>(1, x.waves_n), 1};
  return {width, width, x.block_n / width / std::max<int64_t>(1, x.waves_n)};
}

// Seconds, from the ceilings that Caps knows and a few that all these GPUs share.
double estimate_seconds(const Problem& p, const Params& x, const backend::Caps& caps) {
  if (p.empty()) return 0;
  if (Loop(x.loop) == Loop::wgmma) return wgmma_seconds(p, x, caps);
  if (Loop(x.loop) == Loop::wgmma_stream) return wgmma_stream_seconds(p, x, caps);
  const Tiling t = tiling(p, x);
  constexpr double hertz = 1.7e9, launch = 2e-6;
  const double cores = std::max(1, caps.cores), results = double(p.batches * p.m * p.n);
  const double f32_cycle = std::max(1.0, caps.peak_gflops_f32) * 1e9 / cores / hertz;  // flops a cycle and core
  const double memory = std::max(1.0, caps.copy_gbps) * 1e9;
  const double element = double(ir::bytes_of(p.a.dtype)), k = double(std::max<int64_t>(1, std::min(p.k, t.split_k)));
  double cycles = 0, bytes = Family::work(p).bytes();
  // Groups that a core holds at once, as far as there are any; its four schedulers want two waves each.
  const int64_t fits = std::clamp<int64_t>(std::min({65536 / (t.threads * round_up(std::min<int64_t>(t.registers, 255), 8)), caps.scratch_bytes / std::max<int64_t>(1, t.scratch_bytes),
                                                     2048 / t.threads}), 1, 32);
  const double resident = std::clamp(double(t.groups) / cores, 1.0, double(fits)), waves = resident * double(t.threads / kWave);
  const double busy = std::min(1.0, waves / 4) * (waves < 8 ? 0.6 + 0.4 * std::max(0.0, waves - 4) / 4 : 1);
  double flying = 0;  // bytes of A and B under way to a core
  switch (Loop(x.loop)) {
    case Loop::mma: {
      // mma.sync reaches about 0.6 of the tensor peak on Hopper and newer data-centre parts; others have twice their f32 peak.
      const double tensor = f32_cycle * (caps.has("cluster") ? 9.6 : caps.scratch_bytes > (128 << 10) ? 13 : 1.9) * busy;
      const double wm = double(x.block_m / x.waves_m), wn = double(x.block_n / x.waves_n), all = double(x.waves_m * x.waves_n);
      const double multiply = all * 2 * wm * wn * 16 / tensor, fragments = all * (wm + wn) * 32 / 128, copy = double(x.block_m + x.block_n) * 32 / 48;
      const double worst = std::max({multiply, fragments, copy});
      const double step = worst + 0.2 * (multiply + fragments + copy - worst) + 20.0 * 16 / double(x.block_k) / resident;  // a barrier a block
      cycles = k / 16 * step + 1500 / resident;
      flying = resident * double((x.stages - 1) * x.block_k * (x.block_m + x.block_n)) * element;
      break;
    }
    case Loop::wgmma:
    case Loop::wgmma_stream: break;
    case Loop::scalar: {
      const double tm = double(x.block_m / x.waves_m / 4), tn = double(x.block_n / x.waves_n / 8);
      double rate = f32_cycle * tm * tn / (tm * tn + tm + tn) * busy;
      if (p.arithmetic == ir::DType::f64) rate *= caps.scratch_bytes > (128 << 10) ? 0.5 : 1.0 / 32;
      else if (ir::bytes_of(p.arithmetic) == 8) rate *= 0.15;
      else if (!ir::is_floating(p.arithmetic)) rate *= 0.5;
      const double multiply = 2.0 * double(x.block_m * x.block_n) / rate, copy = double(x.block_m + x.block_n) * element / 48;
      const double step = std::max(multiply, copy) + 0.1 * std::min(multiply, copy) + 60.0 / double(x.block_k) / resident;
      cycles = k * step + 1000 / resident;
      flying = resident * double(x.block_k * (x.block_m + x.block_n)) * element / 2;
      break;
    }
    case Loop::stream: {
      const StreamShape s = stream_shape(p, x);
      const double sums = double(p.m * s.columns), multiply = 2.0 * double(p.m * x.block_n) / (f32_cycle * busy) * 1.3;
      // A comes from L1 for each wave; along N one element at a time.
      const double rows = double(p.m * x.waves_n), again = p.b.row_stride == 1 ? rows * element / 64 : rows * double(s.across) / 32;
      cycles = k * (multiply + again) + (40 * sums + 800) / resident;
      flying = resident * double(t.threads) * 16 * (p.b.row_stride == 1 ? double(s.columns * (sums > 16 ? 1 : 2)) : 4);
      if (p.b.row_stride != 1) bytes *= 1 + 64.0 / double(s.across * s.across * 16);  // short runs of memory
      break;
    }
    case Loop::mma_stream: {
      const MmaStreamShape s = mma_stream_shape(p, x);
      flying = resident * double(t.threads * x.stages * s.bytes_b);
      // A core draws what it has under way once a latency, and at most some 60 bytes a cycle, A from L2 among them.
      const double of_a = double(s.bytes_a) / double(s.bytes_b), group = double(x.block_n) * k * element;
      const double rate = std::min(flying / (0.8e-6 * hertz), 60.0 / (1 + of_a));
      cycles = group / rate + 1800 / resident;
      if (p.b.row_stride == 1) bytes *= 1.05;  // runs of 64 bytes
      break;
    }
  }
  cycles += double(std::min<int64_t>(x.block_m, p.m) * x.block_n) * 0.12 / resident;  // the epilogue
  const double compute = double(ceil_div(t.groups, caps.cores)) * cycles / hertz;
  double extra = launch;
  if (x.split > 1) extra += launch + 2 * results * double(x.split * ir::bytes_of(p.arithmetic)) / (2 * memory);  // mostly from L2
  const double transfer = bytes / memory * std::max(1.0, 40e3 / flying);  // 40 KB hide the latency of memory
  return std::max(compute, transfer) + 0.15 * std::min(compute, transfer) + extra;
}

struct Axes {
  std::vector<int64_t> loop, block_m, block_n, block_k, waves_m, waves_n, waves_k, stages, split;
};

// Powers of two from `low` to `high` that do not exceed the extent by more than a half.
std::vector<int64_t> blocks_of(int64_t low, int64_t high, int64_t extent) {
  std::vector<int64_t> out;
  for (int64_t size = low; size <= high; size *= 2)
    if (size == low || size / 2 < extent) out.push_back(size);
  return out;
}

Axes axes_of(const Problem& p, const backend::Caps& caps) {
  const bool mma = may_use_mma(p, caps), stream = may_stream(p), mma_stream = may_mma_stream(p, caps);
  Axes axes;
  axes.loop = {int64_t(mma ? Loop::mma : Loop::scalar)};
  if (may_use_wgmma(p, caps)) {
    if (p.m > 128) axes.loop.clear();  // what short products want is open
    axes.loop.push_back(int64_t(Loop::wgmma));
  }
  if (may_use_wgmma_stream(p, caps)) axes.loop.push_back(int64_t(Loop::wgmma_stream));
  axes.block_m = blocks_of(mma ? 16 : 8, mma ? 256 : 128, p.m);
  axes.block_n = blocks_of(mma ? 32 : 16, mma ? 256 : 128, p.n);
  axes.block_k = mma ? std::vector<int64_t>{32, 64} : std::vector<int64_t>{8, 16};
  axes.waves_m = {1, 2, 4};
  axes.waves_n = {1, 2, 4};
  axes.stages = mma ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{2};
  axes.waves_k = {1};
  if (stream) {
    axes.loop.push_back(int64_t(Loop::stream));
    axes.waves_k = {1, 2, 4, 8};
    for (const int64_t n : {4, 8, 16, 32, 64, 128, 256})
      if (std::find(axes.block_n.begin(), axes.block_n.end(), n) == axes.block_n.end() && (n == 4 || n / 2 < p.n)) axes.block_n.push_back(n);
  }
  if (mma_stream) {
    axes.loop.push_back(int64_t(Loop::mma_stream));
    axes.waves_k = {1, 2, 4, 8, 16};
    axes.stages.push_back(2);
    for (const int64_t n : {16, 32, 64, 128})
      if (std::find(axes.block_n.begin(), axes.block_n.end(), n) == axes.block_n.end() && n / 2 < p.n) axes.block_n.push_back(n);
  }
  axes.split = {1};
  for (const int64_t split : {2, 3, 4, 6, 8, 12, 16, 32})
    if (p.k / split >= 256 && p.batches * ceil_div(p.m, 128) * ceil_div(p.n, 128) * split <= 4 * std::max(1, caps.cores)) axes.split.push_back(split);
  return axes;
}

Space<Params> with_rules(const Problem& p, const backend::Caps& caps, const Axes& axes) {
  Space<Params> rules;
  const bool views = may_use_wgmma(p, caps);
  const auto axis = [&](const char* name, int64_t Params::*member, const std::vector<int64_t>& values) {
    rules.axis_by(name, member, [=](const Params& x) {
      return Loop(x.loop) == Loop::wgmma ? wgmma_values(p, caps, member, x) : Loop(x.loop) == Loop::wgmma_stream ? wgmma_stream_values(p, caps, member, x) : values;
    });
  };
  rules.axis("loop", &Params::loop, axes.loop);
  axis("block_m", &Params::block_m, axes.block_m);
  axis("block_n", &Params::block_n, axes.block_n);
  axis("block_k", &Params::block_k, axes.block_k);
  if (views) axis("schedule", &Params::schedule, {0});
  axis("waves_m", &Params::waves_m, axes.waves_m);
  axis("waves_n", &Params::waves_n, axes.waves_n);
  axis("waves_k", &Params::waves_k, axes.waves_k);
  axis("split", &Params::split, axes.split);
  if (views) {
    axis("finish", &Params::finish, {0});
    axis("raster", &Params::raster, {8});
  }
  axis("stages", &Params::stages, axes.stages);
  const auto is = [](const Params& x, Loop loop) { return Loop(x.loop) == loop; };
  const auto power_of_two = [](int64_t x) { return x > 0 && (x & (x - 1)) == 0; };
  const int64_t scratch = caps.scratch_bytes, threads = caps.max_threads_per_group, m = p.m, k = p.k;
  const Params first{.loop = 0, .block_m = axes.block_m.front(), .block_k = axes.block_k.front(), .stages = axes.stages.front()};
  rules
      .require("the device runs groups of waves of 32 threads", [wave = caps.lanes_per_wave](const Params&) { return wave == kWave; })
      .require("sizes are powers of two",
               [=](const Params& x) {
                 if (on_views(Loop(x.loop))) return true;
                 for (const int64_t size : {x.block_m, x.block_n, x.block_k, x.waves_m, x.waves_n, x.waves_k})
                   if (!power_of_two(size) || size > 1024) return false;
                 return x.loop >= 0 && x.loop <= int64_t(Loop::wgmma_stream) && x.stages >= 2 && x.stages <= 8 && x.split >= 1;
               })
      .require("tensor cores take f16 and bf16 and need \"mma\", \"ldmatrix\" and \"cp_async\"",
               [=, legal = may_use_mma(p, caps)](const Params& x) { return !is(x, Loop::mma) || legal; })
      .require("B is streamed past at most 8 rows of A, along the axis on which it is contiguous",
               [=, legal = may_stream(p)](const Params& x) { return !is(x, Loop::stream) || legal; })
      .require("a wave of the tensor loop has 16 x 16 to 128 x 64 elements, and a block of K is 32 to 128",
               [=](const Params& x) {
                 const int64_t wm = x.block_m / x.waves_m, wn = x.block_n / x.waves_n;
                 return !is(x, Loop::mma) || (wm >= 16 && wn >= 16 && wm <= 128 && wn <= 128 && wm * wn <= 64 * 64 && x.block_k >= 32 && x.block_k <= 128 && x.waves_k == 1);
               })
      .require("a thread of the scalar loop has at most 64 sums of 4 bytes or 32 of 8",
               [=, bytes = ir::bytes_of(p.arithmetic)](const Params& x) {
                 const int64_t tm = x.block_m / x.waves_m / 4, tn = x.block_n / x.waves_n / 8;
                 return !is(x, Loop::scalar) || (tm >= 1 && tn >= 1 && tm <= 16 && tn <= 16 && tm * tn * bytes <= 256 && x.block_k >= 4 && x.block_k <= 32 &&
                                                 x.stages == 2 && x.waves_k == 1);
               })
      .require("a thread of the streaming loop has at most 64 sums, and a wave whole rows of B",
               [=](const Params& x) {
                 if (!is(x, Loop::stream)) return true;
                 const StreamShape s = stream_shape(p, x);
                 const int64_t row = p.b.row_stride == 1 ? s.columns : s.across;
                 return row >= 1 && row <= 32 && s.columns <= 8 && m * s.columns <= 64 && x.waves_m == 1 && x.block_m == first.block_m &&
                        x.block_k == first.block_k && x.stages == first.stages;
               })
      .require("tensor cores are streamed past by at most 32 rows of A, lines of A and B in whole pieces of 8",
               [=, legal = may_mma_stream(p, caps)](const Params& x) { return !is(x, Loop::mma_stream) || legal; })
      .require("a wave of the streaming tensor loop has 8 to 32 columns along K, 32 or 64 along N, and its loads fit 128 registers",
               [=](const Params& x) {
                 if (!is(x, Loop::mma_stream)) return true;
                 const MmaStreamShape s = mma_stream_shape(p, x);
                 return s.tiles >= 1 && (p.b.row_stride == 1 ? s.tiles <= 4 : s.tiles >= 4 && s.tiles <= 8) && x.stages * (s.bytes_a + s.bytes_b) <= 512 && x.waves_m == 1 &&
                        x.waves_n * x.waves_k >= 4 && x.block_m == first.block_m && x.block_k == first.block_k;
               })
      .require("what a wave computes is not long and thin",
               [=](const Params& x) {
                 if (streams(Loop(x.loop)) || on_views(Loop(x.loop))) return true;
                 const int64_t wm = x.block_m / x.waves_m, wn = x.block_n / x.waves_n;
                 return x.waves_m == 1 || x.waves_n == 1 ? wm * 8 >= wn && wm <= wn * 4 : wm * 4 >= wn && wm <= wn * 4;
               })
      .require("columns that take turns come in sixteens",
               [=, in_turn = p.in_turn](const Params& x) { return !in_turn || on_views(Loop(x.loop)) || (streams(Loop(x.loop)) ? x.block_n : x.block_n / x.waves_n) % 16 == 0; })
      .require("every part of K has at least 64 elements",
               [=](const Params& x) { return x.split == 1 || (x.split <= 64 && (x.split - 1) * tiling(p, x).split_k + 64 <= k); })
      .require("groups have 32 threads to what the device allows", [=](const Params& x) { return tiling(p, x).threads <= std::min<int64_t>(512, threads); })
      .require("scratch fits what a group may have", [=](const Params& x) { return tiling(p, x).scratch_bytes <= scratch; })
      .require("registers of a thread fit 255, those of a group 65536",
               [=](const Params& x) {
                 const Tiling t = tiling(p, x);
                 return on_views(Loop(x.loop)) || (t.registers <= 255 && t.threads * t.registers <= 65536);
               })
      .require("the grid fits 2^31 groups", [=](const Params& x) { return tiling(p, x).groups < (int64_t(1) << 31); });
  wgmma_rules(rules, p, caps);
  wgmma_stream_rules(rules, p, caps);
  return rules;
}

}  // namespace

Tiling tiling(const Problem& p, const Params& x) {
  if (Loop(x.loop) == Loop::wgmma) return wgmma_tiling(p, x);
  if (Loop(x.loop) == Loop::wgmma_stream) return wgmma_stream_tiling(p, x);
  Tiling t;
  const int64_t element = ir::bytes_of(p.arithmetic), words = std::max<int64_t>(1, element / 4), access = 16 / element;
  const Loop loop = Loop(x.loop);
  const int64_t block_m = streams(loop) ? std::max<int64_t>(p.m, 1) : x.block_m;
  const int64_t waves = streams(loop) ? x.waves_n * x.waves_k : x.waves_m * x.waves_n;
  const int64_t wave_m = std::max<int64_t>(1, x.block_m / x.waves_m), wave_n = std::max<int64_t>(1, x.block_n / x.waves_n);
  t.threads = waves * kWave;
  t.m_tiles = ceil_div(p.m, block_m);
  t.n_tiles = ceil_div(p.n, x.block_n);
  t.groups = p.empty() ? 0 : p.batches * t.m_tiles * t.n_tiles * x.split;
  const int64_t unit = streams(loop) ? 64 : x.block_k;
  t.split_k = round_up(ceil_div(std::max<int64_t>(p.k, 1), x.split), unit);
  if (x.split > 1) t.workspace_bytes = x.split * p.batches * p.m * p.n * element;
  switch (loop) {
    case Loop::mma: {
      t.scratch_bytes = std::max(x.stages * (x.block_m + x.block_n) * x.block_k * 2, waves * 16 * (wave_n + 8) * 4);
      t.registers = wave_m * wave_n / 32 + (wave_m / 16 * 4 + wave_n / 8 * 2) * 2 + 56;
      // A thread's chunks of a block lie a constant apart where its waves cover 8 lines at once; else each has a place of its own.
      // Lines that are no whole chunks are gathered by the element, four chunks at once.
      const auto copies = [&](int64_t row_step, int64_t depth_step, int64_t rows) {
        const bool along_k = depth_step == 1 || row_step != 1;
        const int64_t chunks = std::max<int64_t>(1, (along_k ? x.block_k : rows) / 8);
        if (t.threads % (8 * chunks) != 0) t.registers += rows * x.block_k / 8 / t.threads;
        return (along_k ? depth_step : row_step) == 1 && (along_k ? row_step : depth_step) % 8 == 0;
      };
      const bool chunks_a = copies(p.a.row_stride, p.a.column_stride, x.block_m), chunks_b = copies(p.b.column_stride, p.b.row_stride, x.block_n);
      if (!chunks_a || !chunks_b) t.registers += 40;
      break;
    }
    case Loop::stream: {
      const StreamShape s = stream_shape(p, x);
      t.scratch_bytes = x.waves_k * p.m * x.block_n * element;
      t.registers = (p.m * s.columns + 3 * s.width) * words + s.columns * 8 + 64;
      break;
    }
    case Loop::wgmma:
    case Loop::wgmma_stream: break;
    case Loop::mma_stream: {
      const MmaStreamShape s = mma_stream_shape(p, x);
      t.scratch_bytes = x.waves_k * p.m * x.block_n * element;
      t.registers = x.stages * (s.bytes_a + s.bytes_b) / 4 + s.row_tiles * s.tiles * 4 + 2 * s.tiles + 48;
      break;
    }
    case Loop::scalar: {
      const int64_t tm = std::max<int64_t>(1, wave_m / 4), tn = std::max<int64_t>(1, wave_n / 8), vm = std::min(tm, access);
      t.scratch_bytes = std::max(2 * x.block_k * (x.block_m + x.block_n + 2 * access), waves * 4 * vm * (wave_n + access)) * element;
      t.registers = (tm * tn + 2 * (tm + tn) + ceil_div((x.block_m + x.block_n) * x.block_k, t.threads)) * words + 48;
      break;
    }
  }
  // As many groups on a core as registers allow with room to spare; two are enough to hide one's beginning and end behind the other.
  const int64_t spare = loop == Loop::mma ? 0 : t.registers / 4 + 16;  // what the copies' addresses and the epilogue take
  const int64_t resident = 65536 / (t.threads * round_up(std::min<int64_t>(t.registers + spare, 255), 8));
  const int64_t wanted = loop == Loop::mma ? 2 : std::max<int64_t>(1, 512 / t.threads);
  t.groups_per_core = std::clamp<int64_t>(resident, 1, wanted);
  return t;
}

Space<Params> space(const Problem& problem, const backend::Caps& caps) {
  const Axes axes = axes_of(problem, caps);
  Space<Params> made = with_rules(problem, caps, axes);
  Params best;
  double best_seconds = INFINITY;
  for (const Params& x : made.legal_points())
    if (const double seconds = estimate_seconds(problem, x, caps); seconds < best_seconds) best_seconds = seconds, best = x;
  return made.prefer(best).estimate([problem, caps](const Params& x) { return 1e3 * estimate_seconds(problem, x, caps); });
}

}  // namespace rtx::kernels::gemm::gpu

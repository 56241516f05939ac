// The parameter space: register tile, cache tile, and where B comes from.
#include <algorithm>
#include <cmath>

#include "kernels/gemm/gemm.h"

namespace rtx::kernels::gemm {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// All of B's matrices can be packed in one pass: there is one, or one for each batch.
bool packs_whole(const Problem& p) {
  return p.b_matrices == 1 || (p.b_matrices == p.batches && p.b_matrix == codegen::Index::variable(Problem::batch_variable, p.batches));
}

constexpr int64_t kStreamedRows = 8;

struct Axes {
  std::vector<int64_t> mr, vectors, mc, nc, kc, pack_a, b_source;
};

void add_once(std::vector<int64_t>& values, int64_t value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

Axes axes_of(const Problem& p, const backend::Caps& caps) {
  const int64_t lanes = std::max<int64_t>(1, caps.vector_bits / ir::info(p.arithmetic).bits);
  const int64_t row_vectors = ceil_div(std::max<int64_t>(p.n, 1), lanes), rows = std::max<int64_t>(p.m, 1);
  const bool wide = caps.vector_registers >= 32;
  Axes axes;
  for (const int64_t mr : wide ? std::vector<int64_t>{8, 12, 14} : std::vector<int64_t>{4, 6}) add_once(axes.mr, std::min(mr, rows));
  for (const int64_t v : {1, 2, 3, 4, 8})
    if (v == 1 || (v <= row_vectors && (v < 4 || rows <= 4))) axes.vectors.push_back(v);
  if (p.in_turn && lanes < 8) {  // panels of 16 columns
    axes.vectors = {16 / lanes};
    add_once(axes.mr, std::min<int64_t>(2, rows));
  }
  for (const int64_t tiles : {2, 4, 8, 16}) add_once(axes.mc, std::min(tiles, ceil_div(rows, axes.mr.front())));
  for (const int64_t panels : {1, 4, 16, 64}) add_once(axes.nc, std::min(panels, row_vectors));
  for (const int64_t kc : {256, 512, 1024}) add_once(axes.kc, std::clamp<int64_t>(p.k, 1, kc));
  axes.pack_a = {0, 1};
  if (p.k == 0) axes.b_source = {int64_t(BSource::task)};
  else if (p.b.weight && packs_whole(p)) axes.b_source = {int64_t(BSource::panels)};
  else axes.b_source = {int64_t(BSource::panels), int64_t(BSource::rows), int64_t(BSource::task)};
  if (p.k > 0 && rows <= kStreamedRows && axes.b_source.size() > 1) axes.b_source.push_back(int64_t(BSource::stream));
  return axes;
}

// Cycles one step of k takes in a register tile: two fused multiply-adds and two loads a cycle, four cycles of latency; loads
// are not wholly hidden (8 x 3 was 4 % faster than 8 x 2 at 128x384x384, AVX-512).
double step_cycles(int64_t rows, int64_t vectors) {
  const double loads = double(rows + vectors);
  return std::max({double(rows * vectors) / 2, loads / 2, 4.0}) + 0.06 * loads;
}

double estimate_ms(const Problem& p, const Params& x, const backend::Caps& caps) {
  if (p.empty()) return 0;
  const Tiling t = tiling(p, x, caps.vector_bits);
  const BSource source = BSource(x.b_source);
  const double element = double(ir::bytes_of(p.arithmetic)), cores = std::max(1, caps.cores);
  // peak = 2 fused multiply-adds a cycle, which gives the clock
  const double flops_per_cycle = 4.0 * double(std::max(32, caps.vector_bits)) / 32;
  const double hertz = std::max(1.0, caps.peak_gflops_f32) * 1e9 / cores / flops_per_cycle;
  const double results = double(p.batches * p.m * p.n), products = double(p.batches * p.n * p.k);

  double cycles = 0;
  if (source == BSource::stream) {
    const double row = double(p.m * x.vectors) * 8;  // of 8 rows: multiply-adds, broadcasts and loads of B, sums in and out
    cycles = products / double(t.nr) / 8 * std::max(row / 2, (double(p.m) * 8 + double(x.vectors) * 8 + double(2 * p.m * x.vectors)) / 2);
  } else {
    const double full = double(p.m / x.mr), tail = double(p.m % x.mr);
    const double steps = full * step_cycles(x.mr, x.vectors) + (tail > 0 ? step_cycles(int64_t(tail), x.vectors) : 0);
    cycles = steps * double(t.panels) * double(p.k) * double(p.batches);
    // B's block comes from L2, or from beyond when it does not stay there, once for every tile of rows.
    const bool stays = double(x.kc * t.nc) * element < double(caps.l2_bytes) / 2;
    cycles += products * double(t.m_tiles) * element / (stays ? 32 : 6);
    // A's block goes from L2 to L1 once for every panel; with one panel a group it must survive all of K to be found there.
    const bool a_stays = t.nc > t.nr || double(t.mc * p.k) * element < 0.75 * double(caps.l2_bytes);
    cycles += double(p.batches * p.m * p.k) * double(t.panels) * element / (a_stays ? 128 : 8);
    const bool page_apart = (p.a.row_stride * ir::bytes_of(p.a.dtype)) % 4096 == 0;
    if (x.pack_a == 0) cycles *= page_apart && x.mr > 4 ? 1.10 : p.a.column_stride != 1 ? 1.5 : 1.01;
    else cycles += 1.2 * double(p.batches * p.m * p.k) * double(t.n_tiles);
  }
  const bool far_apart = (p.b.row_stride * ir::bytes_of(p.b.dtype)) % 4096 == 0;
  if (source == BSource::rows) cycles *= far_apart ? 1.3 : 1.05;
  const double copy_cycles = p.b.column_stride == 1 ? 0.25 : 1.5;  // an element
  if (source == BSource::task) cycles += copy_cycles * products * double(t.m_tiles);
  const double blocks = double(ceil_div(std::max<int64_t>(p.k, 1), x.kc));
  if (source != BSource::stream) cycles += (blocks - 1) * results * element / 16;  // partial sums out and in
  cycles += results * (1 + double(p.epilogue.flops())) / double(t.lanes) + 200.0 * double(t.groups);

  double bytes = Family::work(p).bytes(), fixed = t.groups > 1 && cores > 1 ? 2e-6 : 0;  // waking the other threads
  if (source == BSource::panels && !p.b.weight) {  // a launch of its own
    bytes += 2 * double(p.b_matrices * p.n * p.k) * element;
    fixed += copy_cycles * double(p.b_matrices * p.n * p.k) / cores / hertz + 2e-6;
  }
  // Short pieces of rows far apart defeat the prefetchers.
  if (source == BSource::rows && double(p.n * p.k) * element > double(caps.l2_bytes)) bytes *= 1 + 256 / (double(t.nr) * element);
  // The last groups of a launch leave threads idle, and more so when another process takes a core: many groups are worth a little.
  const double balance = double(ceil_div(t.groups, int64_t(cores))) * cores / double(t.groups);
  const double idle = std::min(balance, 1 + cores / double(t.groups)) + 0.1 * cores / double(t.groups);
  const double compute = cycles * idle / cores / hertz, memory = bytes / (std::max(0.1, caps.copy_gbps) * 1e9);
  return 1e3 * (std::max(compute, memory) + 0.2 * std::min(compute, memory) + fixed);
}

Space<Params> with_rules(const Problem& p, const backend::Caps& caps, const Axes& axes) {
  Space<Params> space;
  space.axis("mr", &Params::mr, axes.mr)
      .axis("vectors", &Params::vectors, axes.vectors)
      .axis("mc", &Params::mc, axes.mc)
      .axis("nc", &Params::nc, axes.nc)
      .axis("kc", &Params::kc, axes.kc)
      .axis("pack_a", &Params::pack_a, axes.pack_a)
      .axis("b_source", &Params::b_source, axes.b_source);
  const int bits = caps.vector_bits, registers = caps.vector_registers;
  const int64_t l1 = caps.l1_bytes, l2 = caps.l2_bytes, element = ir::bytes_of(p.arithmetic);
  space
      .require("the device has explicit vectors", [=](const Params&) { return bits > 0 && registers > 0; })
      .require("sizes are positive", [=](const Params& x) { return x.mr > 0 && x.vectors > 0 && x.mc > 0 && x.nc > 0 && x.kc > 0 && x.vectors <= 8; })
      .require("accumulators, one row of B and one element of A fit the registers",
               [=](const Params& x) { return x.mr * x.vectors + x.vectors + 1 <= registers; })
      .require("columns that take turns come in sixteens", [=, in_turn = p.in_turn](const Params& x) { return !in_turn || bits / 8 / element * x.vectors % 16 == 0; })
      .require("B's panel takes at most the L1 cache twice",
               [=](const Params& x) { return x.kc * x.vectors * (bits / 8) <= 2 * l1; })
      .require("A's block takes at most three quarters of the L2 cache",
               [=](const Params& x) { return x.kc * x.mr * x.mc * element <= l2 * 3 / 4; })
      .require("the source of B exists", [=](const Params& x) { return x.b_source >= 0 && x.b_source <= 3 && x.pack_a >= 0 && x.pack_a <= 1; })
      .require("B is read in place only with contiguous rows",
               [column = p.b.column_stride](const Params& x) {
                 return column == 1 || (BSource(x.b_source) != BSource::rows && BSource(x.b_source) != BSource::stream);
               })
      .require("B is streamed past at most 8 rows of A, whose sums fit L1 and registers",
               [=, m = p.m, k = p.k, lanes = std::max<int64_t>(1, bits / 8 / element)](const Params& x) {
                 return BSource(x.b_source) != BSource::stream ||
                        (k > 0 && m <= kStreamedRows && x.pack_a == 0 && m * x.vectors + x.vectors + 1 <= registers &&
                         m * x.vectors * x.nc * lanes * element <= l1);
               })
      .require("B is packed beforehand only if each batch has its own or all share one",
               [whole = packs_whole(p)](const Params& x) { return BSource(x.b_source) != BSource::panels || whole; })
      .require("A that is evenly spaced along K in single steps is not copied for fewer than 4 rows",
               [column = p.a.column_stride](const Params& x) { return x.pack_a == 0 || x.mr >= 4 || column != 1; });
  return space;
}

}  // namespace

Tiling tiling(const Problem& p, const Params& x, int vector_bits) {
  Tiling t;
  const int64_t element = ir::bytes_of(p.arithmetic);
  t.lanes = std::max<int64_t>(1, vector_bits / 8 / element);
  t.nr = x.vectors * t.lanes;
  t.panels = ceil_div(p.n, t.nr);
  t.mc = x.mr * x.mc;
  t.nc = t.nr * x.nc;
  t.m_tiles = ceil_div(p.m, t.mc);
  t.n_tiles = ceil_div(p.n, t.nc);
  t.groups = p.empty() ? 0 : p.batches * t.m_tiles * t.n_tiles;
  const int64_t mc = std::min(t.mc, round_up(p.m, x.mr)), nc = std::min(t.nc, t.panels * t.nr), kc = std::min(x.kc, p.k);
  const bool copies_b = BSource(x.b_source) == BSource::task || (BSource(x.b_source) == BSource::rows && p.n % t.nr != 0);
  if (BSource(x.b_source) == BSource::stream) {
    t.m_tiles = 1;
    t.groups = p.empty() ? 0 : p.batches * t.n_tiles;
    t.scratch_bytes = element * p.m * t.nc;
    return t;
  }
  t.scratch_bytes = element * (x.mr * t.nr + (x.pack_a ? round_up(mc * kc, 16) : 0) + (p.k > x.kc ? mc * nc : 0) + (copies_b ? kc * t.nr : 0));
  // Half types are kept packed where B is read once and memory is the limit.
  t.panel_dtype = p.m <= 16 ? p.b.dtype : p.arithmetic;
  t.packed_bytes = p.b_matrices * t.panels * t.nr * p.k * ir::bytes_of(t.panel_dtype);
  return t;
}

Space<Params> Family::space(const Problem& problem, const backend::Caps& caps) {
  if (caps.lanes_per_wave > 1) return gpu::space(problem, caps);
  const Axes axes = axes_of(problem, caps);
  Space<Params> space = with_rules(problem, caps, axes);
  Params best, x;
  double best_ms = INFINITY;
  for (int64_t mr : axes.mr) for (int64_t v : axes.vectors) for (int64_t mc : axes.mc) for (int64_t nc : axes.nc)
    for (int64_t kc : axes.kc) for (int64_t pack_a : axes.pack_a) for (int64_t source : axes.b_source) {
      x = {mr, v, mc, nc, kc, pack_a, source};
      if (!space.broken_rule(x).empty()) continue;
      if (const double ms = estimate_ms(problem, x, caps); ms < best_ms) best_ms = ms, best = x;
    }
  return space.prefer(best).estimate([problem, caps](const Params& point) { return estimate_ms(problem, point, caps); });
}

}  // namespace rtx::kernels::gemm

// Loop::wgmma: which operands tensor views can bring, the space of its tiles and schedules, and what they are estimated to take.
#include <algorithm>
#include <cmath>

#include "kernels/gemm/gpu.h"

namespace rtx::kernels::gemm::gpu {
namespace {

int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr int64_t kDepth = 64, kWidestCoordinate = int64_t(1) << 31;

bool is_16_bit(ir::DType dtype) { return dtype == ir::DType::f16 || dtype == ir::DType::bf16; }

// A matrix of 16-bit elements: element (batch, line, inner) at offset(batch) + line * step + inner.
std::optional<View> matrix_view_of(const codegen::Index& offset, ir::DType dtype, int64_t inner, int64_t lines, int64_t step, int64_t batches) {
  View out;
  int64_t batch_step = 0;
  if (!offset.affine_in(Problem::batch_variable, 1, &batch_step)) return std::nullopt;
  const codegen::Index first = offset.substitute({{Problem::batch_variable, codegen::Index(0)}});
  if (!first.is_constant()) return std::nullopt;
  if (lines == 1) step = (inner + 7) / 8 * 8;  // never used
  out.batches = batches > 1 && batch_step != 0;
  const auto takes = [](int64_t elements) { return elements > 0 && elements % 8 == 0 && elements < (int64_t(1) << 39); };
  if (!takes(step) || (out.batches && !takes(batch_step)) || first.constant() < 0 || first.constant() % 8 != 0) return std::nullopt;
  if (inner >= kWidestCoordinate || lines >= kWidestCoordinate || batches >= kWidestCoordinate) return std::nullopt;
  auto& t = out.tensor;
  t.element = dtype == ir::DType::bf16 ? backend::ViewElement::bf16 : backend::ViewElement::f16;
  t.extents = {inner, lines};
  t.strides_bytes = {step * 2};
  t.box = {64, 64};
  if (out.batches) t.extents.push_back(batches), t.strides_bytes.push_back(batch_step * 2), t.box.push_back(1);
  t.swizzle = 128;
  t.byte_offset = first.constant() * 2;
  return out;
}

std::optional<View> operand_view(const Problem& p, const Operand& o, int64_t lines, int64_t line_step, int64_t k_step, int64_t block) {
  if (!is_16_bit(o.dtype)) return std::nullopt;
  if (k_step == 1 || p.k == 1) {
    auto view = matrix_view_of(o.offset, o.dtype, p.k, lines, line_step, p.batches);
    if (view) view->tensor.box[1] = block;
    if (view || line_step != 1) return view;
  }
  if (line_step != 1 && lines != 1) return std::nullopt;
  auto view = matrix_view_of(o.offset, o.dtype, lines, p.k, k_step, p.batches);
  if (view) view->along_k = false;
  return view;
}

// What a point means.
struct Shape {
  bool ping_pong;
  int64_t consumers, bands, sums;  // bands of 64 rows of a warpgroup, sums of a thread
  int64_t stage_bytes, finish_bytes;
};
Shape shape_of(const Params& x) {
  Shape s;
  s.ping_pong = x.schedule == 1;
  s.consumers = std::max<int64_t>(1, x.waves_m);
  s.bands = x.block_m / 64 / (s.ping_pong ? 1 : s.consumers);
  s.sums = s.bands * x.block_n / 2;
  s.stage_bytes = (x.block_m + x.block_n) * kDepth * 2;
  s.finish_bytes = s.consumers * (x.finish > 0 ? wgmma_boxes(x) * 8192 : 4 * 16 * 68 * 4);
  return s;
}
int64_t stages_that_fit(const Params& x, const backend::Caps& caps) {
  const Shape s = shape_of(x);
  return std::clamp<int64_t>((caps.scratch_bytes - s.finish_bytes - 256) / s.stage_bytes, 1, 8);
}

bool varies_everywhere(const codegen::Element& e) {
  return e.kind == codegen::Element::Kind::load && e.offset.depends_on(Problem::m_variable) && e.offset.depends_on(Problem::n_variable);
}

// The epilogue is a few operations on each sum.
bool is_light(const Problem& p) { return p.epilogue.flops() <= (p.in_turn ? 16 : 8); }

// Elements that the tiles of one wave need, for bands of `raster`.
double touched(const Params& x, double cores, int64_t raster) {
  const double g = double(std::abs(raster)), across = double(raster > 0 ? x.block_m : x.block_n), along = double(raster > 0 ? x.block_n : x.block_m);
  return g * across + std::ceil(cores / g) * along;
}

}  // namespace

std::optional<View> view_of_a(const Problem& p, int64_t block) { return operand_view(p, p.a, p.m, p.a.row_stride, p.a.column_stride, block); }
std::optional<View> view_of_b(const Problem& p, int64_t block) { return operand_view(p, p.b, p.n, p.b.column_stride, p.b.row_stride, block); }

std::optional<View> view_of_c(const Problem& p) {
  if (p.epilogue.stores.size() != 1) return std::nullopt;
  const auto& store = p.epilogue.stores.front();
  const auto& buffer = p.epilogue.buffers[size_t(store.buffer)];
  int64_t m_step = 0, n_step = 0;
  if (!is_16_bit(buffer.dtype) || p.result_columns() % 2 != 0 || !store.offset.affine_in(Problem::n_variable, 1, &n_step) || n_step != 1 ||
      !store.offset.affine_in(Problem::m_variable, 1, &m_step))
    return std::nullopt;
  int varying = 0;
  for (const auto& e : p.epilogue.elements) {
    if (e.kind != codegen::Element::Kind::load) continue;
    varying += varies_everywhere(e);
    if (e.guard >= 0 || varying > 1) return std::nullopt;
  }
  const codegen::Index first = store.offset.substitute({{Problem::m_variable, codegen::Index(0)}, {Problem::n_variable, codegen::Index(0)}});
  if (p.m > 1 && m_step < p.result_columns()) return std::nullopt;  // rows that are apart: boxes must not meet
  return matrix_view_of(first, buffer.dtype, p.result_columns(), p.m, m_step, p.batches);
}

int other_load(const Problem& p) {
  for (size_t i = 0; i < p.epilogue.elements.size(); ++i)
    if (varies_everywhere(p.epilogue.elements[i])) return int(i);
  return -1;
}

std::optional<View> view_of_other(const Problem& p) {
  const int load = other_load(p);
  if (load < 0) return std::nullopt;
  const auto& e = p.epilogue.elements[size_t(load)];
  const ir::DType dtype = p.epilogue.buffers[size_t(e.buffer)].dtype;
  int64_t m_step = 0, n_step = 0;
  if (!is_16_bit(dtype) || !e.offset.affine_in(Problem::n_variable, 1, &n_step) || n_step != 1 || !e.offset.affine_in(Problem::m_variable, 1, &m_step)) return std::nullopt;
  return matrix_view_of(e.offset.substitute({{Problem::m_variable, codegen::Index(0)}, {Problem::n_variable, codegen::Index(0)}}), dtype, p.result_columns(), p.m, m_step, p.batches);
}

bool is_capable(const backend::Caps& caps) { return caps.has("tma") && caps.has("wgmma") && caps.has("mbarrier"); }

bool may_use_wgmma(const Problem& p, const backend::Caps& caps) {
  return !p.empty() && p.k > 0 && p.a.dtype == p.b.dtype && is_capable(caps) && view_of_a(p, 64) && view_of_b(p, 64) &&
         p.m < kWidestCoordinate / 2 && p.n < kWidestCoordinate / 2;
}

int64_t wgmma_boxes(const Params& x) { return x.finish == 2 ? 4 : x.finish == 1 ? 2 : 0; }

Tiling wgmma_tiling(const Problem& p, const Params& x) {
  const Shape s = shape_of(x);
  Tiling t;
  t.m_tiles = up(p.m, x.block_m);
  t.n_tiles = up(p.n, x.block_n);
  t.groups = p.empty() ? 0 : p.batches * t.m_tiles * t.n_tiles * x.split;
  t.threads = (s.consumers + 1) * 128;
  t.split_k = up(up(std::max<int64_t>(p.k, 1), x.split), kDepth) * kDepth;
  t.registers = s.sums + 40;
  t.scratch_bytes = x.stages * s.stage_bytes + s.finish_bytes + (2 * x.stages + (x.finish == 2 ? s.consumers * wgmma_boxes(x) : 0)) * 8;
  if (x.split > 1) t.workspace_bytes = x.split * p.batches * p.m * p.n * 4;
  return t;
}

// Rates seen on an H200: full waves of any of the large tiles run at 690 to 715 TFLOP/s, so that what decides is the last wave, and for
// small tiles what a core gets from L2.
double wgmma_seconds(const Problem& p, const Params& x, const backend::Caps& caps) {
  const Shape s = shape_of(x);
  const Tiling t = wgmma_tiling(p, x);
  constexpr double hertz = 1.34e9, launch = 3e-6;
  const double cores = std::max(1, caps.cores), bm = double(x.block_m), bn = double(x.block_n);
  const double pipe = bm * bn / 128, shared = bm / 64 * (2048 + 32 * bn) / 128, cache = (bm + bn) * 32 / 64;  // cycles for 16 of K
  const double issue = s.ping_pong ? 1.01 : s.bands * x.block_n >= 256 ? 1.03 : s.consumers > 1 ? 1.06 : 1.15;
  const double step = std::max({4 * std::max(pipe * issue, shared), 4 * cache, 900.0 / double(x.stages), 120.0});
  const double steps = double(up(std::min(p.k, t.split_k), kDepth)), tiles = std::ceil(double(t.groups) / cores);
  const double pieces = double(s.bands) * bn / 64, finish = pieces * ((x.finish > 0 ? 260 : 620) + 32 * 6 * double(p.epilogue.flops()) / (s.consumers > 1 && !s.ping_pong ? 2 : 1)) + 600;
  const double multiply = steps * step, each = s.ping_pong ? std::max(multiply, (multiply + finish) / 2) : multiply + finish;
  const double cycles = tiles * each + (s.ping_pong ? finish : 0) + 1500;
  double extra = launch;
  const double memory = std::max(1.0, caps.copy_gbps) * 1e9;
  if (x.split > 1) extra += 2.5e-6 + 2 * double(p.batches * p.m * p.n * x.split) * 4 / (2 * memory);
  const double again = touched(x, cores, x.raster) / std::max(1.0, std::sqrt(cores * bm * bn));  // a trace, for the order of tiles
  const double compute = cycles / hertz, transfer = Family::work(p).bytes() / memory;
  return std::max(compute, transfer) + 0.12 * std::min(compute, transfer) + extra + compute * 1e-3 * again;
}

std::vector<int64_t> wgmma_values(const Problem& p, const backend::Caps& caps, int64_t Params::*axis, const Params& x) {
  const bool deep = p.k >= 512;
  if (axis == &Params::block_m) {
    std::vector<int64_t> out = {64};
    for (const int64_t size : {128, 192, 256})
      if (p.m > size / 2) out.push_back(size);
    return out;
  }
  if (axis == &Params::block_n) {
    std::vector<int64_t> out = {64};
    for (const int64_t size : {128, 192, 256})
      if (p.n > size / 2) out.push_back(size);
    return out;
  }
  if (axis == &Params::block_k) return {kDepth};
  if (axis == &Params::schedule) return p.batches * up(p.m, x.block_m) * up(p.n, x.block_n) > caps.cores ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0};
  if (axis == &Params::waves_m) {
    if (x.schedule == 1) return {2};
    return x.block_m == 64 ? std::vector<int64_t>{1} : x.block_m == 192 ? std::vector<int64_t>{3} : std::vector<int64_t>{2};
  }
  if (axis == &Params::finish) {
    if (x.split > 1 || !is_light(p) || !view_of_c(p) || (p.in_turn && x.block_n % 128 != 0)) return {0};
    if (other_load(p) < 0) return {1};
    return view_of_other(p) ? std::vector<int64_t>{2, 0} : std::vector<int64_t>{0};
  }
  if (axis == &Params::split) {
    std::vector<int64_t> out = {1};
    const int64_t tiles = p.batches * up(p.m, x.block_m) * up(p.n, x.block_n);
    for (const int64_t split : {2, 3, 4, 6, 8})
      if (deep && p.k / split >= 256 && tiles * split <= 2 * std::max(1, caps.cores) && x.schedule == 0) out.push_back(split);
    return out;
  }
  if (axis == &Params::stages) {
    const int64_t most = std::min(stages_that_fit(x, caps), std::max<int64_t>(2, up(p.k, kDepth)));
    return most >= 6 ? std::vector<int64_t>{most, 4} : std::vector<int64_t>{std::max<int64_t>(2, most)};
  }
  if (axis == &Params::raster) {
    int64_t best = 8;
    for (const int64_t g : {16, -8, -16})
      if (touched(x, double(caps.cores), g) < touched(x, double(caps.cores), best)) best = g;
    return {best};
  }
  return {1};
}

void wgmma_rules(Space<Params>& space, const Problem& p, const backend::Caps& caps) {
  const auto other = [](const Params& x) { return Loop(x.loop) != Loop::wgmma; };
  const bool capable = is_capable(caps), light = is_light(p), view = view_of_c(p).has_value(), varies = other_load(p) >= 0, other_view = view_of_other(p).has_value();
  space
      .require("products of warpgroups need \"tma\", \"wgmma\" and \"mbarrier\"", [=](const Params& x) { return other(x) || capable; })
      .require("products of warpgroups take f16 and bf16 whose lines and batches begin at multiples of 16 bytes", [=, legal = may_use_wgmma(p, caps)](const Params& x) { return other(x) || !capable || legal; })
      .require("a tile on tensor views has 64, 128, 192 or 256 rows and columns, and blocks of K of 64",
               [=](const Params& x) {
                 const auto size = [](int64_t v) { return v >= 64 && v <= 256 && v % 64 == 0; };
                 return other(x) || (size(x.block_m) && size(x.block_n) && x.block_k == kDepth && x.waves_n == 1 && x.waves_k == 1);
               })
      .require("1 to 3 warpgroups share a tile's rows evenly, or 2 take turns",
               [=](const Params& x) {
                 return other(x) || (x.schedule == 0 ? x.waves_m >= 1 && x.waves_m <= 3 && x.block_m / 64 % x.waves_m == 0 : x.schedule == 1 && x.waves_m == 2);
               })
      .require("sums of a thread leave room in the registers of its warpgroup",
               [=](const Params& x) { return other(x) || shape_of(x).sums <= (x.waves_m == 3 ? 96 : 192); })
      .require("a product of 256 columns has at most three warpgroups in its group", [=](const Params& x) { return other(x) || x.block_n < 256 || x.waves_m <= 2; })
      .require("results leave through a view where there is one 16-bit store of whole rows, and what else varies with row and column comes through one",
               [=](const Params& x) { return other(x) || x.finish == 0 || (view && x.split == 1 && (varies ? x.finish == 2 && other_view : x.finish == 1)); })
      .require("what is computed beside the sums, or by rows from 128 of them a thread at most, fits the registers",
               [=](const Params& x) { return other(x) || (x.finish > 0 ? light : shape_of(x).sums <= 128); })
      .require("boxes of results have both factors of columns that take turns", [=, in_turn = p.in_turn](const Params& x) { return other(x) || x.finish == 0 || !in_turn || x.block_n % 128 == 0; })
      .require("a ring has 2 to 8 stages", [=](const Params& x) { return other(x) || (x.stages >= 2 && x.stages <= 8); })
      .require("tiles go in bands of 1 to 64", [=](const Params& x) { return other(x) || (x.raster != 0 && std::abs(x.raster) <= 64); })
      .require("tiles are fewer than 2^30", [=](const Params& x) { return other(x) || wgmma_tiling(p, x).groups < (int64_t(1) << 30); });
}

}  // namespace rtx::kernels::gemm::gpu

// Loop::wgmma_stream, space and text: few rows of A on the N side of products, B read once by as many groups as there are cores, K shared
// by the groups of a cluster.
#include <algorithm>
#include <cmath>

#include "codegen/print.h"
#include "kernels/gemm/gpu.h"

namespace rtx::kernels::gemm::gpu {

using backend::BufferKind;
using backend::BufferRef;
using codegen::Source;

namespace {

constexpr int64_t kMostRows = 128, kColumns = 64, kThreads = 160;
// Two groups share a core's memory, so that one's beginning hides behind the other.
constexpr int64_t kGroupBytes = 113 << 10;

int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t stage_bytes(const Params& x) { return x.block_k * 2 * (kColumns + x.block_m); }
int64_t sums_bytes(const Params& x) { return x.block_m * 68 * 4 * (x.split > 1 ? 2 : 1); }

}  // namespace

bool may_use_wgmma_stream(const Problem& p, const backend::Caps& caps) {
  if (p.m > kMostRows || !may_use_wgmma(p, caps) || !caps.has("cluster")) return false;
  const auto a = view_of_a(p, 8);
  return a && a->along_k;
}

Tiling wgmma_stream_tiling(const Problem& p, const Params& x) {
  Tiling t;
  t.m_tiles = 1;
  t.n_tiles = up(p.n, kColumns);
  t.groups = p.empty() ? 0 : p.batches * t.n_tiles * x.split;
  t.threads = kThreads;
  t.split_k = up(up(std::max<int64_t>(p.k, 1), std::max<int64_t>(1, x.split)), std::max<int64_t>(64, x.block_k)) * std::max<int64_t>(64, x.block_k);
  t.registers = x.block_m / 2 + 40;
  t.scratch_bytes = x.stages * stage_bytes(x) + sums_bytes(x) + 2 * x.stages * 8;
  return t;
}

// What is under way to a core once a latency, what a core takes from L2, and what memory gives.
double wgmma_stream_seconds(const Problem& p, const Params& x, const backend::Caps& caps) {
  const Tiling t = wgmma_stream_tiling(p, x);
  const double cores = std::max(1, caps.cores), memory = std::max(1.0, caps.copy_gbps) * 1e9;
  const double each = double(kColumns + x.block_m) * 2 * double(std::min(p.k, t.split_k));
  const double waves = std::ceil(double(t.groups) / cores), resident = std::clamp(waves, 1.0, 2.0);
  const double rate = std::min(75e9, resident * double(x.stages * stage_bytes(x)) / 1.2e-6);
  const double draw = waves * each / rate, transfer = Family::work(p).bytes() / memory;
  return std::max(draw, transfer) + 0.15 * std::min(draw, transfer) + 3.3e-6 + (x.split > 1 ? 0.8e-6 : 0) + waves * 0.3e-6;
}

std::vector<int64_t> wgmma_stream_values(const Problem& p, const backend::Caps& caps, int64_t Params::*axis, const Params& x) {
  if (axis == &Params::block_m) return {up(p.m, 8) * 8};
  if (axis == &Params::block_n) return {kColumns};
  if (axis == &Params::block_k) return p.m <= 64 && p.k > 128 ? std::vector<int64_t>{128, 256} : std::vector<int64_t>{64, 128};
  if (axis == &Params::schedule || axis == &Params::finish) return {0};
  if (axis == &Params::raster) return {8};
  if (axis == &Params::split) {
    std::vector<int64_t> out = {1};
    for (const int64_t split : {2, 4, 8})
      if (p.k / split >= 512 && p.batches * up(p.n, kColumns) * split <= 4 * std::max(1, caps.cores)) out.push_back(split);
    return out;
  }
  if (axis == &Params::stages) return {std::clamp<int64_t>((kGroupBytes - sums_bytes(x) - 256) / stage_bytes(x), 1, 8)};
  return {1};
}

void wgmma_stream_rules(Space<Params>& space, const Problem& p, const backend::Caps& caps) {
  const auto other = [](const Params& x) { return Loop(x.loop) != Loop::wgmma_stream; };
  space
      .require("products of warpgroups stream B past at most 128 rows of A with K contiguous, and need \"cluster\"",
               [=, legal = may_use_wgmma_stream(p, caps)](const Params& x) { return other(x) || legal; })
      .require("a stream of products has all rows in eights, 64 columns and 64 to 256 of K a stage",
               [=](const Params& x) {
                 return other(x) || (x.block_m == up(p.m, 8) * 8 && x.block_n == kColumns && (x.block_k == 64 || x.block_k == 128 || x.block_k == 256) && x.waves_m == 1 && x.waves_n == 1 &&
                                     x.waves_k == 1);
               })
      .require("a cluster has 1, 2, 4 or 8 groups", [=](const Params& x) { return other(x) || x.split == 1 || x.split == 2 || x.split == 4 || x.split == 8; })
      .require("a stream has 2 to 8 stages", [=](const Params& x) { return other(x) || (x.stages >= 2 && x.stages <= 8); });
}

Result<backend::KernelPlan> wgmma_stream_emit(const Problem& p, const Params& x, const codegen::Dialect& dialect) {
  const Tiling t = wgmma_stream_tiling(p, x);
  const auto a = view_of_a(p, x.block_m), b = view_of_b(p, kColumns);
  if (!a || !b) return user_error("gemm has no tensor views of its operands", "the rules of its space exclude this loop");
  backend::KernelPlan plan;
  plan.name = name_of(p);
  plan.numerics_class = "gemm f32: products of 16 in increasing k by warpgroups" + (x.split > 1 ? "; parts of " + number(t.split_k) + " added in order" : std::string());
  Source s(dialect, plan.name, "kernels/gemm/wgmma_stream.cpp",
           "rows=" + number(x.block_m) + " block_k=" + number(x.block_k) + " stages=" + number(x.stages) + " cluster=" + number(x.split), work_text(p));
  for (const char* header : {"kernels/gemm/device_gpu.h", "kernels/gemm/device_wgmma.h", "kernels/gemm/device_wgmma_stream.h"}) s.include(header);
  print_wgmma_width(s, x.block_m);
  s.open("namespace of_" + plan.name);
  const auto word = [](bool value) { return value ? "true" : "false"; };
  const int64_t row = row_threads(kColumns, row_width(p));
  s.open("struct Shape");
  s.line("using A = " + codegen::type_text(p.a.dtype) + ";");
  s.line("using T = f32;");
  s.line("static constexpr i64 M = " + number(p.m) + ", N = " + number(p.n) + ", K = " + number(p.k) + ", BATCHES = " + number(p.batches) + ";");
  s.line("static constexpr int ROWS = " + number(x.block_m) + ", BK = " + number(x.block_k) + ", STAGES = " + number(x.stages) + ", SPLIT = " + number(x.split) + ", SPLIT_K = " +
         number(t.split_k) + ", ROW_THREADS = " + number(row) + ";");
  s.line(std::string("static constexpr bool B_ALONG_K = ") + word(b->along_k) + ", A_BATCHES = " + word(a->batches) + ", B_BATCHES = " + word(b->batches) + ";");
  s.close(";");
  s.line();
  print_epilogue(s, p, row, kColumns, [&](int w, const std::string& i) { return "gemm::aligned<" + codegen::lanes_text(ir::DType::f32, w) + ">(sums + " + i + ")"; });

  backend::Launch product{plan.name, {t.groups, 1, 1}, {kThreads, 1, 1}, t.scratch_bytes, {BufferRef{BufferKind::input, p.a.input}, BufferRef{BufferKind::input, p.b.input}}, {}};
  product.views = {a->tensor, b->tensor};
  product.views[1].argument = 1;
  for (const auto& buffer : codegen::buffer_arguments(p.epilogue)) product.arguments.push_back(buffer);
  s.line("// args: A, B, then the epilogue's buffers; views of A and B; a cluster is 64 columns of C, a group one part of K");
  s.open_kernel(plan.name, int(kThreads), 2, 2, int(x.split));
  s.line("static_assert(gemm::WgmmaStream<Shape>::scratch_bytes == " + number(t.scratch_bytes) + " && gemm::WgmmaStream<Shape>::groups == " + number(t.groups) + ");");
  codegen::print_buffers(s, p.epilogue, 2);
  s.line(epilogue_value(p));
  s.line("gemm::wgmma_stream_columns<Shape>(VIEW(0), VIEW(1), epilogue);");
  s.close_kernel(int64_t(product.arguments.size()));
  plan.steps.push_back(std::move(product));
  s.close();
  plan.text = s.take();
  return plan;
}

}  // namespace rtx::kernels::gemm::gpu

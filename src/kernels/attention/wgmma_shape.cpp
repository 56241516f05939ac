#include <algorithm>

#include "kernels/attention/wgmma.h"

namespace rtx::kernels::attention {

using codegen::Index;

namespace {

constexpr int64_t kPiece = 8192;  // bytes of 64 rows of 128

// `offset` as a sum of the four coordinates times their steps, if it is one.
std::optional<Layout> decompose(const Index& offset, int buffer, Variable row, Variable along, const std::map<int, int64_t>& extents) {
  Layout out;
  out.buffer = buffer;
  Index rest = offset, sum;
  for (const auto& [id, extent] : extents) rest = rest.substitute({{id, Index(0)}});
  if (!rest.is_constant()) return {};
  out.offset = rest.constant();
  sum = rest;
  for (const auto& [id, extent] : extents) {
    int64_t step = 0;
    if (!offset.affine_in(id, 1, &step) || (extent > 1 && step == 0)) return {};
    sum = sum + Index::variable(id, extent) * step;
    (id == along ? out.along : id == row ? out.row : id == kHead ? out.head : out.batch) = step;
  }
  if (!(sum == offset)) return {};
  return out;
}

}  // namespace

std::optional<Layout> layout_of(const Operand& operand, const Problem& p, Variable row, Variable along) {
  if (!operand.in_place) return {};
  const auto& load = operand.dag.elements[0];
  if (load.guard >= 0) return {};
  return decompose(load.offset, load.buffer, row, along,
                   {{kBatch, p.batch}, {kHead, row == kQuery ? p.query_heads : p.key_heads}, {row, row == kQuery ? p.queries : p.keys}, {along, along == kDepth ? p.depth : p.width}});
}

std::optional<Layout> result_layout_of(const Problem& p) {
  const auto& dag = p.epilogue;
  if (dag.stores.size() != 1 || dag.elements.size() != 1 || dag.elements[0].kind != codegen::Element::Kind::leaf) return {};
  if (dag.buffers[static_cast<size_t>(dag.stores[0].buffer)].dtype != p.q.dtype) return {};
  return decompose(dag.stores[0].offset, dag.stores[0].buffer, kQuery, kWidth, {{kBatch, p.batch}, {kHead, p.query_heads}, {kQuery, p.queries}, {kWidth, p.width}});
}

bool has_view(const Layout& layout, int64_t row_elements) {
  if (layout.along != 1 && row_elements > 1) return false;
  for (const int64_t step : {layout.offset, layout.row, layout.head, layout.batch})
    if (step < 0 || step % 8 != 0 || step >= int64_t{1} << 38) return false;
  return true;
}

std::string wgmma_refusal(const Problem& p, const backend::Caps& caps) {
  for (const char* feature : {"wgmma", "tma", "mbarrier", "store_matrix"})
    if (!caps.has(feature)) return std::string("the device has no ") + feature;
  if (!takes_mma(p, caps)) return "the operands are not those of matrix instructions";
  if (p.depth > 256 || p.width > 256) return "rows are wider than 256";
  if (p.depth <= 16) return "rows of 16 and less are one product, around which the compiler serialises the others";
  const std::optional<Layout> q = layout_of(p.q, p, kQuery, kDepth), k = layout_of(p.k, p, kKey, kDepth), v = layout_of(p.v, p, kKey, kWidth);
  if (!q || !k || !v) return "q, k or v is not read in place";
  if (!has_view(*q, p.depth) || !has_view(*k, p.depth) || !has_view(*v, p.width)) return "rows of q, k or v do not start at multiples of 16 bytes";
  return {};
}

WgmmaShape wgmma_shape_of(const Problem& p, const Params& params, const backend::Caps& caps) {
  const auto up = [](int64_t n, int64_t to) { return ceil_div(n, to) * to; };
  WgmmaShape s;
  s.depth = up(std::max<int64_t>(p.depth, 1), 16);
  s.width = up(std::max<int64_t>(p.width, 1), 16);
  s.consumers = std::max<int64_t>(1, params.block_q / 64);
  s.pieces = ceil_div(s.depth, 64);
  s.swizzle = s.width % 64 == 0 ? 128 : s.width % 32 == 0 ? 64 : 32;
  s.q_bytes = s.pieces * params.block_q * 128;
  s.key_bytes = s.pieces * params.block_k * 128;
  s.value_bytes = s.width * params.block_k * 2;
  s.keys_at = s.q_bytes;
  s.values_at = s.keys_at + params.stages * s.key_bytes;
  s.results_at = up(s.values_at + params.stages * s.value_bytes, 1024);
  constexpr int64_t barriers = 128;
  const std::optional<Layout> result = result_layout_of(p);
  s.results_by_view = params.splits == 1 && result && has_view(*result, p.width);
  const int64_t free = caps.scratch_bytes - barriers - s.results_at;
  if (s.results_by_view) {
    s.result_buffers = std::clamp<int64_t>(free / (s.consumers * kPiece), 0, std::min<int64_t>(2, ceil_div(s.width, 64)));
    if (s.result_buffers == 0 && ceil_div(s.width, 64) > s.pieces) s.results_by_view = false;  // they do not fit where q was
  }
  s.barriers_at = s.results_at + s.consumers * s.result_buffers * kPiece;
  s.bytes = s.barriers_at + barriers;
  // Sums, scores, weights; then what addresses, totals and loops take, work on scores, and the masks of a block on their way.
  const bool plain = p.softcap == 0 && p.scale > 0;
  s.registers = s.width / 2 + params.block_k / 2 + params.block_k / 4 + (p.masked >= 0 ? params.block_k / 2 + 48 : plain ? 28 : 40);
  if (s.consumers == 1) {
    s.per_core = 2 * (s.bytes + 1024) <= caps.scratch_bytes + 1024 && s.registers <= 216 ? 2 : 1;
    if (s.per_core == 2) s.grown = 216, s.shrunk = 40;
  } else if (s.consumers == 2) {
    s.grown = 240, s.shrunk = 24;
  } else {
    s.grown = 160, s.shrunk = 32;
  }
  return s;
}

}  // namespace rtx::kernels::attention

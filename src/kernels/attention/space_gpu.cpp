#include <algorithm>

#include "kernels/attention/wgmma.h"

namespace rtx::kernels::attention {

Tiling tiling_of(const Problem& p, const Params& params, const backend::Caps& caps) {
  Tiling out;
  const int64_t share = p.query_heads / std::max<int64_t>(1, p.key_heads);
  const auto padded = [&](int64_t rows) { return ceil_div(rows, params.block_q) * params.block_q; };
  // One tile for the heads that share keys reads these once; it pays where a head's own rows leave much of its tiles empty.
  // Boxes of 64 rows have whole queries of it.
  if (share > 1 && padded(p.queries * share) * 10 < padded(p.queries) * share * 9 && (params.mma != 2 || 64 % share == 0)) out.heads = share;
  out.units = p.batch * p.query_heads / std::max<int64_t>(1, out.heads);
  out.rows = p.queries * out.heads;
  out.blocks = ceil_div(out.rows, params.block_q);
  const bool uneven = (p.causal || p.window_right >= 0 || p.window_left >= 0) && out.blocks > 1;
  if (!uneven) return out;
  const int64_t bytes = std::max<int64_t>(1, p.keys * (p.depth * ir::bytes_of(p.k.dtype) + p.width * ir::bytes_of(p.v.dtype)));
  const int64_t most = std::clamp<int64_t>(caps.l2_bytes / 2 / bytes * share / out.heads, 1, out.units);
  for (int64_t section = 1; section <= most; ++section)
    if (out.units % section == 0) out.section = section;
  return out;
}

GpuScratch gpu_scratch_of(const Problem& p, const Params& params) {
  const auto fours = [](int64_t n) { return std::max<int64_t>(4, ceil_div(n, 4) * 4); };
  GpuScratch s;
  s.depth = fours(p.depth) + 4;
  s.width = fours(p.width);
  s.keys = params.block_k + 4;
  const auto take = [&](int64_t& offset, int64_t count) {
    offset = s.bytes;
    s.bytes += ceil_div(count * 4, 16) * 16;
  };
  take(s.greatest, params.block_q);
  take(s.total, params.block_q);
  take(s.factor, params.block_q);
  take(s.q, params.block_q * s.depth);
  take(s.key_rows, params.block_k * s.depth);
  take(s.value_rows, params.block_k * s.width);
  take(s.scores, params.block_q * s.keys);
  s.results = s.q;  // when the last block is done
  s.bytes = std::max(s.bytes, s.results + params.block_q * s.width * 4);
  return s;
}

MmaShape mma_shape_of(const Problem& p, const Params& params) {
  const auto up = [](int64_t n, int64_t to) { return ceil_div(n, to) * to; };
  MmaShape s;
  s.depth = std::max<int64_t>(16, up(p.depth, 16));
  s.width = up(p.width, 16);
  s.waves_q = std::min(params.waves, params.block_q / 16);
  s.waves_k = params.waves / s.waves_q;
  s.fragments = params.block_q / 16 / s.waves_q;
  s.keys = params.block_k / s.waves_k;
  const int64_t q = s.fragments * s.depth / 4;
  s.q_stays = q <= 32;
  // Sums and scores, q where it stays, bases, and what totals, addresses and operands take; work on scores keeps more alive.
  const bool plain = p.masked < 0 && p.softcap == 0;
  s.registers = s.fragments * (s.width / 2 + s.keys / 2 + 2) + (s.q_stays ? q : s.fragments * 4) + (plain ? 44 : p.masked < 0 ? 72 : 96);
  s.key_stage = params.block_k * (s.depth + 8);
  s.value_stage = params.block_k * (s.width + 8);
  s.key_rows = params.block_q * (s.depth + 8) * 2;
  s.value_rows = s.key_rows + s.key_stage * params.stages * 2;
  s.bytes = s.value_rows + s.value_stage * params.stages * 2;
  s.result_stride = s.width + 8;
  s.places = params.block_q * s.result_stride * 4;
  s.greatest = s.places + (s.waves_k > 1 ? s.waves_k * params.block_q * 8 : 0);
  s.total = s.greatest + params.block_q * 4;
  s.bytes = std::max(s.bytes, s.total + params.block_q * 4);
  return s;
}

bool takes_mma(const Problem& p, const backend::Caps& caps) {
  const bool half = p.q.dtype == ir::DType::f16 || p.q.dtype == ir::DType::bf16;
  // Weights are rounded to 16 bits on the way to the values; a result of 32 would show it.
  const bool shows = std::any_of(p.epilogue.stores.begin(), p.epilogue.stores.end(), [&](const codegen::Store& s) {
    const ir::DType dtype = p.epilogue.buffers[static_cast<size_t>(s.buffer)].dtype;
    return ir::is_floating(dtype) && ir::bytes_of(dtype) > 2;
  });
  return half && !shows && p.k.dtype == p.q.dtype && p.v.dtype == p.q.dtype && p.depth > 0 && p.keys > 0 && p.keys < (int64_t{1} << 30) && caps.has("mma") &&
         caps.has("ldmatrix") && caps.has("cp_async");
}

namespace {

// Groups that share a tile's keys: until every core has two, as far as each still has `least` keys.
int64_t splits_of(const Problem& p, const Tiling& tiling, const backend::Caps& caps, int64_t least) {
  int64_t splits = 1;
  const int64_t groups = std::max<int64_t>(1, tiling.groups());
  while (splits < 64 && groups * splits * 2 <= 2 * caps.cores && p.keys >= splits * 2 * least) splits *= 2;
  return splits;
}

Params preferred_general(const Problem& p, const backend::Caps& caps, const std::function<bool(const Params&)>& legal) {
  Params best;
  best.block_q = 4, best.block_k = 8;
  for (const int64_t block_q : {4, 8, 16, 32, 64})
    for (const int64_t block_k : {8, 16, 32}) {
      Params point = best;
      point.block_q = block_q, point.block_k = block_k;
      // Larger tiles read keys less often, until there are too few of them for the machine.
      if (legal(point) && (block_q == best.block_q || tiling_of(p, point, caps).groups() >= caps.cores)) best = point;
    }
  best.splits = splits_of(p, tiling_of(p, best, caps), caps, 128);
  return best;
}

Params preferred_mma(const Problem& p, const backend::Caps& caps, const std::function<bool(const Params&)>& legal) {
  // Best first where all have work: fragments of 32 rows a wave read keys and values half as often.
  constexpr Params tiles[] = {{.mma = 1, .block_q = 128, .block_k = 64, .waves = 4}, {.mma = 1, .block_q = 128, .block_k = 48, .waves = 4}, {.mma = 1, .block_q = 128, .block_k = 64, .waves = 8},
                              {.mma = 1, .block_q = 128, .block_k = 32, .waves = 8}, {.mma = 1, .block_q = 64, .block_k = 64, .waves = 4},  {.mma = 1, .block_q = 64, .block_k = 32, .waves = 4},
                              {.mma = 1, .block_q = 32, .block_k = 64, .waves = 4},  {.mma = 1, .block_q = 16, .block_k = 64, .waves = 4}};
  const auto two_fit = [&](const Params& at) { return 2 * (mma_shape_of(p, at).bytes + 1024) <= caps.scratch_bytes + 1024; };
  Params best;
  best.mma = 0;
  for (const Params& tile : tiles) {
    if (!legal(tile)) continue;
    // Four waves alone leave a core idle; a tile that just fits the registers spills with the next arch or mask.
    if (tile.block_q == 128 && tile.waves == 4 && (!two_fit(tile) || mma_shape_of(p, tile).registers > 236)) continue;
    const Tiling tiling = tiling_of(p, tile, caps);
    if (best.mma != 0) {
      // A smaller tile where the larger ones are half empty or too few; one of another shape and the same rows never.
      if (tile.block_q == best.block_q) continue;
      const Tiling before = tiling_of(p, best, caps);
      const bool empty = before.blocks * best.block_q * before.units * 4 > tiling.blocks * tile.block_q * tiling.units * 5;
      const bool few = before.groups() < caps.cores && tile.block_q >= 64;
      if (!empty && !few) continue;
    }
    best = tile;
  }
  if (best.mma == 0) return best;
  // Another stage where two groups of them fit a core, more for groups that mostly wait for memory.
  for (const int64_t stages : {2, 3}) {
    Params deeper = best;
    deeper.stages = stages;
    const bool streams = best.block_q <= 32;
    if (legal(deeper) && (stages == 2 || streams) && two_fit(deeper)) best = deeper;
  }
  best.splits = splits_of(p, tiling_of(p, best, caps), caps, 4 * best.block_k);
  return best;
}

// Orders candidates: arithmetic of whole tiles at what an instruction reaches, turns that the cores take, memory.
double estimate_of(const Problem& p, const Params& at, const backend::Caps& caps, const Work& work) {
  if (at.mma == 2) return wgmma_estimate(p, at, caps, work);
  const Tiling tiling = tiling_of(p, at, caps);
  const int64_t groups = tiling.groups() * at.splits, held = at.mma == 0 || 2 * mma_shape_of(p, at).bytes <= caps.scratch_bytes ? 2 : 1;
  const double filled = static_cast<double>(p.queries * p.query_heads * p.batch) / static_cast<double>(tiling.groups() * at.block_q);
  double speed = at.mma != 0 ? 5.0 : at.block_q >= 16 ? 0.4 : 0.2;  // of f32's peak
  if (at.mma != 0) {
    const MmaShape shape = mma_shape_of(p, at);
    if (shape.fragments == 1) speed *= 0.8;                         // keys and values are read from scratch twice as often
    speed *= static_cast<double>(at.block_k) / static_cast<double>(at.block_k + 4 * shape.waves_k);
    if (shape.registers > 236) speed *= 0.95;
    if (at.stages == 1) speed *= 0.95;
  }
  const double slots = static_cast<double>(caps.cores * held), turns = static_cast<double>(ceil_div(groups, static_cast<int64_t>(slots))) * slots / static_cast<double>(groups);
  const double arithmetic = work.flops / filled * turns / (speed * std::max(1.0, caps.peak_gflops_f32) * 1e6);
  const double combined = at.splits == 1 ? 0 : 2.0 * static_cast<double>(at.splits * tiling.units * tiling.rows * (p.width + 2) * 4);
  return std::max(arithmetic, (work.bytes() + combined) / std::max(1.0, caps.copy_gbps * 1e6)) + (at.splits == 1 ? 0 : 0.003);
}

}  // namespace

Space<Params> gpu_space(const Problem& p, const backend::Caps& caps) {
  if (p.elements() == 0) return Space<Params>{}.axis("mma", &Params::mma, {0});
  const bool mma = takes_mma(p, caps);
  const int64_t rows = p.queries * p.query_heads / p.key_heads, scratch = caps.scratch_bytes;
  using Values = std::vector<int64_t>;
  const std::string no_wgmma = wgmma_refusal(p, caps);
  const auto shape_of = [=](const Params& at) { return mma_shape_of(p, at); };
  Space<Params> space;
  space.axis("mma", &Params::mma, no_wgmma.empty() ? Values{0, 1, 2} : mma ? Values{0, 1} : Values{0})
      .axis_by("block_q", &Params::block_q, [](const Params& at) { return at.mma == 0 ? Values{4, 8, 16, 32, 64} : at.mma == 1 ? Values{16, 32, 64, 128} : Values{64, 128, 192}; })
      .axis_by("block_k", &Params::block_k,
               [](const Params& at) { return at.mma == 0 ? Values{8, 16, 32, 64} : at.mma == 1 ? Values{16, 32, 48, 64, 128} : Values{64, 80, 96, 112, 128, 144, 160, 176, 192}; })
      .axis_by("waves", &Params::waves, [](const Params& at) { return at.mma == 0 ? Values{4} : at.mma == 1 ? Values{4, 8} : Values{at.block_q / 16 + 4}; })
      .axis_by("stages", &Params::stages, [](const Params& at) { return at.mma == 0 ? Values{1} : at.mma == 1 ? Values{1, 2, 3} : Values{2, 3}; })
      .axis_by("turns", &Params::turns, [](const Params& at) { return at.mma == 2 && at.block_q > 64 ? Values{0, 1} : Values{0}; })
      .axis("splits", &Params::splits, {1, 2, 4, 8, 16, 32, 64})
      .require("f32 arithmetic has four waves, one stage, at most 64 rows and 64 keys",
               [](const Params& at) { return at.mma != 0 || (at.waves == 4 && at.stages == 1 && at.block_q <= 64 && at.block_k <= 64 && at.block_k != 48); })
      .require("matrix instructions take f16 or bf16, the same for q, k and v, and give no wider result", [=](const Params& at) { return at.mma == 0 || mma; })
      .require("warpgroups take what views can bring: " + (no_wgmma.empty() ? std::string("this problem they can") : no_wgmma), [=](const Params& at) { return at.mma != 2 || no_wgmma.empty(); })
      .require("waves have 16 or 32 rows each, and four or eight of them a tile", [](const Params& at) { return at.mma != 1 || (at.waves <= 8 && at.block_q >= 16 && at.block_q <= at.waves * 32); })
      .require("a wave's keys of a block are sixteens, of 48 or a power of two",
               [=](const Params& at) {
                 return at.mma != 1 || ((at.block_k == 48 || (at.block_k & (at.block_k - 1)) == 0) && shape_of(at).keys >= 16 && at.block_k % (shape_of(at).waves_k * 16) == 0);
               })
      .require("warpgroups have 64 rows each and one more loads for them",
               [](const Params& at) { return at.mma != 2 || (at.block_q >= 64 && at.waves == at.block_q / 16 + 4 && at.block_k >= 64 && at.block_k <= 192 && at.block_k % 16 == 0 && at.stages >= 2 && at.stages <= 3); })
      .require("several warpgroups may take turns", [](const Params& at) { return at.turns == 0 || (at.turns == 1 && at.mma == 2 && at.block_q > 64); })
      .require("a tile has less than twice as many rows as there are",
               [=](const Params& at) { return at.block_q == (at.mma == 2 ? 64 : at.mma == 1 ? 16 : 4) || at.block_q < 2 * rows; })
      .require("rows and groups are counted in 31 bits",
               [=](const Params& at) { return rows < (int64_t{1} << 31) && tiling_of(p, at, caps).groups() * at.splits < (int64_t{1} << 31); })
      .require("each split has keys", [=](const Params& at) { return at.splits == 1 || at.splits <= ceil_div(p.keys, at.block_k); })
      .require("keys are split until every core has four groups", [=](const Params& at) { return at.splits == 1 || tiling_of(p, at, caps).groups() * at.splits <= 4 * caps.cores; })
      .require("a thread's sums fit its registers",
               [=](const Params& at) {
                 if (at.mma == 0) return at.block_q * ceil_div(p.width, 4) * 4 / (at.waves * 32) <= 64;
                 if (at.mma == 1) return shape_of(at).registers <= 255;
                 const WgmmaShape shape = wgmma_shape_of(p, at, caps);
                 return shape.registers <= (shape.grown > 0 ? shape.grown : 255);
               })
      .require("the tile and its blocks of keys and values fit the scratch", [=](const Params& at) {
        return (at.mma == 2 ? wgmma_shape_of(p, at, caps).bytes : at.mma == 1 ? shape_of(at).bytes : gpu_scratch_of(p, at).bytes) <= scratch;
      });
  const auto legal = [&](const Params& at) { return space.broken_rule(at).empty(); };
  Params best = no_wgmma.empty() ? preferred_wgmma(p, caps, legal) : Params{};
  if (best.mma == 0 && mma) best = preferred_mma(p, caps, legal);
  if (best.mma == 0) best = preferred_general(p, caps, legal);
  return space.prefer(best).estimate([=, work = Attention::work(p)](const Params& at) { return estimate_of(p, at, caps, work); });
}

}  // namespace rtx::kernels::attention

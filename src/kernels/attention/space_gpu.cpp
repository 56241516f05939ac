#include <algorithm>

#include "kernels/attention/gpu.h"

namespace rtx::kernels::attention {

Tiling tiling_of(const Problem& p, const Params& params, const backend::Caps& caps) {
  Tiling out;
  const int64_t share = p.query_heads / std::max<int64_t>(1, p.key_heads);
  const auto padded = [&](int64_t rows) { return ceil_div(rows, params.block_q) * params.block_q; };
  // One tile for the heads that share keys reads these once; it pays where a head's own rows leave much of its tiles empty.
  if (share > 1 && padded(p.queries * share) * 10 < padded(p.queries) * share * 9) out.heads = share;
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

namespace {

// Groups that share a tile's keys: until every core has two, as far as each still has `least` keys.
int64_t splits_of(const Problem& p, const Tiling& tiling, const backend::Caps& caps, int64_t least) {
  int64_t splits = 1;
  const int64_t groups = std::max<int64_t>(1, tiling.groups());
  while (splits < 64 && groups * splits * 2 <= 2 * caps.cores && p.keys >= splits * 2 * least) splits *= 2;
  return splits;
}

Params preferred_general(const Problem& p, const backend::Caps& caps, const std::function<bool(const Params&)>& fits) {
  Params best;
  best.block_q = 4;
  const int64_t rows = p.queries * p.query_heads / std::max<int64_t>(1, p.key_heads);
  for (const int64_t block_q : {4, 8, 16, 32, 64})
    for (const int64_t block_k : {8, 16, 32}) {
      Params point = best;
      point.block_q = block_q, point.block_k = block_k;
      if (!fits(point) || (block_q > 4 && block_q >= 2 * rows)) continue;
      // Larger tiles read keys less often, until there are too few of them for the machine.
      if (block_q > best.block_q && tiling_of(p, point, caps).groups() < 2 * caps.cores) continue;
      best = point;
    }
  best.splits = splits_of(p, tiling_of(p, best, caps), caps, 128);
  return best;
}

}  // namespace

Space<Params> gpu_space(const Problem& p, const backend::Caps& caps) {
  if (p.elements() == 0) return Space<Params>{}.axis("mma", &Params::mma, {0});
  const int64_t rows = p.queries * p.query_heads / p.key_heads, keys = p.keys, width = p.width, scratch = caps.scratch_bytes;
  const auto sums_fit = [=](const Params& at) { return at.block_q * ceil_div(width, 4) * 4 / (at.waves * 32) <= 64; };
  const auto scratch_fits = [=](const Params& at) { return gpu_scratch_of(p, at).bytes <= scratch; };
  const Params best = preferred_general(p, caps, [&](const Params& at) { return sums_fit(at) && scratch_fits(at); });
  return Space<Params>{}
      .axis("mma", &Params::mma, {0})
      .axis("block_q", &Params::block_q, {4, 8, 16, 32, 64})
      .axis("block_k", &Params::block_k, {8, 16, 32, 64})
      .axis("waves", &Params::waves, {4})
      .axis("stages", &Params::stages, {1})
      .axis("splits", &Params::splits, {1, 2, 4, 8, 16, 32, 64})
      .require("a tile has less than twice as many rows as there are", [=](const Params& at) { return at.block_q == 4 || at.block_q < 2 * rows; })
      .require("each split has keys", [=](const Params& at) { return at.splits == 1 || at.splits <= ceil_div(keys, at.block_k); })
      .require("a thread's sums fit its registers", sums_fit)
      .require("the tile and a block of keys fit the scratch", scratch_fits)
      .prefer(best);
}

}  // namespace rtx::kernels::attention

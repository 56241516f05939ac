#include <algorithm>

#include "kernels/attention/wgmma.h"

namespace rtx::kernels::attention {

// A model of one core, in clocks: products at 4096 flop a clock, those of q and keys slower the fewer keys an instruction has (q is
// read again for each), powers of two at 16, some five further instructions a score at 128. What a block takes is its products and the
// part of the softmax that they do not hide, or bringing its keys and values; a tile adds its first block's scores, its last block's
// values and the storing of its results.
double wgmma_estimate(const Problem& p, const Params& at, const backend::Caps& caps, const Work& work) {
  const Tiling tiling = tiling_of(p, at, caps);
  const WgmmaShape shape = wgmma_shape_of(p, at, caps);
  const double rows = static_cast<double>(at.block_q), keys = static_cast<double>(at.block_k), scores = rows * keys;
  const double products = scores * 2 * (static_cast<double>(shape.depth) * (1 + 24 / keys) + static_cast<double>(shape.width)) / 4096, softmax = scores / 16 + scores * 5 / 128;
  double shown = shape.consumers == 3 ? (p.width <= 64 ? 0.4 : 0.65) : shape.consumers == 2 ? 0.5 : 0.6;
  if (shape.consumers > 1 && (at.turns != 0) != (p.width <= 128)) shown += 0.15;
  const int64_t items = tiling.groups() * at.splits, groups = std::max<int64_t>(1, wgmma_groups(p, at, caps));
  const double sharing = groups > caps.cores ? static_cast<double>(shape.per_core) : 1.0;  // groups of one core
  // A core takes in up to 32 bytes a clock; with two stages, less for the turns that they wait for each other.
  const double brought = keys * static_cast<double>(p.depth + p.width) * 2 / (at.stages > 2 || sharing > 1 ? 32 : 24);
  const double block = std::max(products + shown * softmax + 250, brought);
  const double tile = block + softmax + 1500 + rows * static_cast<double>(p.width) / (at.splits > 1 ? 16 : 32);
  const double blocks = static_cast<double>(ceil_div(ceil_div(p.keys, at.block_k), at.splits));
  double most = 0;  // clocks of the group that takes longest
  if (even_tiles(p) || tiling.blocks == 1) {
    most = static_cast<double>(ceil_div(items, groups)) * (blocks * block + tile);
  } else {
    const double seen = work.flops / std::max(1.0, 2.0 * static_cast<double>(p.depth + p.width)) / scores;  // blocks, about
    const double each = (seen * block + static_cast<double>(items) * (tile + block / 2)) / static_cast<double>(groups);
    most = items <= groups ? blocks * block + tile : std::max(blocks * block + tile, each);
  }
  most *= sharing;
  const double gigahertz = std::max(1.0, caps.peak_gflops_f32) / (256.0 * caps.cores);
  const double combined = at.splits == 1 ? 0 : 2.0 * static_cast<double>(at.splits * tiling.units * tiling.rows * (p.width + 2) * 4);
  return std::max(most / (gigahertz * 1e6), (work.bytes() + combined) / std::max(1.0, caps.copy_gbps * 1e6)) + (at.splits == 1 ? 0 : 0.004);
}

Params preferred_wgmma(const Problem& p, const backend::Caps& caps, const std::function<bool(const Params&)>& legal) {
  Params best;
  // Rows of decoding are too few for a warpgroup's 64, unless many heads share keys.
  if (tiling_of(p, {.mma = 2, .block_q = 64}, caps).rows < 32) return best;
  const auto work = Attention::work(p);
  double least = 0;
  for (const int64_t block_q : {192, 128, 64})
    for (const int64_t block_k : {176, 160, 144, 128, 96, 64})
      for (const int64_t stages : {2, 3})
        for (const int64_t splits : {1, 2, 4, 8, 16, 32, 64}) {
          const Params at{.mma = 2, .block_q = block_q, .block_k = block_k, .waves = block_q / 16 + 4, .stages = stages, .turns = block_q > 64 && p.width <= 128 ? 1 : 0, .splits = splits};
          // Tiles that just fit the registers are for the tuner to try.
          if (!legal(at)) continue;
          const WgmmaShape shape = wgmma_shape_of(p, at, caps);
          if (shape.registers > (shape.grown > 0 ? shape.grown : 255) - 8) continue;
          const double milliseconds = wgmma_estimate(p, at, caps, work);
          if (best.mma == 2 && milliseconds >= least * 0.99) continue;
          best = at;
          least = milliseconds;
        }
  return best;
}

}  // namespace rtx::kernels::attention

#include <algorithm>
#include <queue>

#include "kernels/attention/wgmma.h"

namespace rtx::kernels::attention {

bool even_tiles(const Problem& p) { return !p.causal && p.window_left < 0 && p.window_right < 0; }

int64_t wgmma_groups(const Problem& p, const Params& params, const backend::Caps& caps) {
  return std::min(caps.cores * wgmma_shape_of(p, params, caps).per_core, tiling_of(p, params, caps).groups() * params.splits);
}

namespace {

// Blocks of keys that a tile's rows see, as GpuText::key_range has them.
int64_t blocks_of(const Problem& p, const Params& params, const Tiling& tiling, int64_t tile) {
  const int64_t first = (tiling.blocks - 1 - (tiling.section == 1 ? tile % tiling.blocks : tile / tiling.section % tiling.blocks)) * params.block_q;
  const int64_t last = std::min(first + params.block_q, tiling.rows) - 1;
  const auto clamped = [&](int64_t key) { return std::clamp<int64_t>(key, 0, p.keys); };
  const int64_t low = first / tiling.heads + p.causal_offset, high = last / tiling.heads + p.causal_offset;
  const int64_t begin = p.window_left < 0 ? 0 : clamped(low - p.window_left) / params.block_k * params.block_k;
  int64_t end = p.causal ? clamped(high + 1) : p.keys;
  if (p.window_right >= 0) end = std::min(end, clamped(high + p.window_right + 1));
  return ceil_div(std::max<int64_t>(end - begin, 0), params.block_k);
}

}  // namespace

std::vector<std::vector<int>> schedule_of(const Problem& p, const Params& params, const backend::Caps& caps) {
  const Tiling tiling = tiling_of(p, params, caps);
  const int64_t groups = wgmma_groups(p, params, caps), items = tiling.groups() * params.splits;
  std::vector<std::vector<int>> out(static_cast<size_t>(groups));
  // Least loaded first, and of those the one with the lowest number.
  using Load = std::pair<int64_t, int64_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int64_t g = 0; g < groups; ++g) loads.push({0, g});
  for (int64_t item = 0; item < items; ++item) {
    const auto [load, group] = loads.top();
    loads.pop();
    out[static_cast<size_t>(group)].push_back(static_cast<int>(item));
    // Beginning and ending a tile takes about as long as two blocks.
    loads.push({load + 2 + ceil_div(blocks_of(p, params, tiling, item / params.splits), params.splits), group});
  }
  return out;
}

}  // namespace rtx::kernels::attention

#pragma once
// Nests that read across the rows they write.
#include <string>
#include <vector>

#include "codegen/nest.h"

namespace rtx::kernels {

struct Tile {
  int rows = -1;           // variable along which the source is contiguous; -1: the nest is not tiled
  int columns = -1;        // variable along which the target is contiguous: the nest's row
  std::vector<int> loads;  // elements read across
};
Tile find_tile(const codegen::LoopNest& nest);

// Groups of a tiled nest, scratch bytes a thread needs, and the text of group `group`.
struct TilePlan {
  int64_t groups = 1;
  int64_t tiles_per_group = 1;
  int64_t scratch_bytes = 0;
};
TilePlan plan_tiles(const codegen::LoopNest& nest, const Tile& tile, int64_t edge, int64_t elements_per_group);
void print_tiles(codegen::Source& source, const codegen::LoopNest& nest, const Tile& tile, const TilePlan& plan, int64_t edge,
                 const codegen::NestStyle& style);

}  // namespace rtx::kernels

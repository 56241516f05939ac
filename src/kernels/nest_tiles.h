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

// A group walks square blocks of tiles: a block touches as many pages of the source as of the target, few enough for the TLB
// (whole rows of tiles took 2.5 times as long on 4096 x 4096 f32). Small squares are taken several to a group.
struct TilePlan {
  int64_t row_side = 1, column_side = 1;      // tiles of a block
  int64_t row_blocks = 1, column_blocks = 1;  // blocks along the rows, columns
  int64_t blocks = 1;                         // over all loops
  int64_t blocks_per_group = 1;
  int64_t groups = 1;
  int64_t scratch_bytes = 0;
};
TilePlan plan_tiles(const codegen::LoopNest& nest, const Tile& tile, int64_t edge, int64_t elements_per_group);
void print_tiles(codegen::Source& source, const codegen::LoopNest& nest, const Tile& tile, const TilePlan& plan, int64_t edge,
                 const codegen::NestStyle& style);

}  // namespace rtx::kernels

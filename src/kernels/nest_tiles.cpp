#include "kernels/nest_tiles.h"

#include <algorithm>
#include <map>

#include "base/assert.h"
#include "codegen/print.h"

namespace rtx::kernels {

using codegen::Element;
using codegen::ElementDag;
using codegen::Index;
using codegen::LoopNest;

namespace {

int64_t extent_of(const LoopNest& nest, int v) { return nest.extents[static_cast<size_t>(v)]; }
int64_t tiles_along(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool has_elements(const Index& index) {
  bool out = false;
  index.walk([&](const Index& part) { out = out || part.kind() == Index::Kind::element; });
  return out;
}

}  // namespace

Tile find_tile(const LoopNest& nest) {
  Tile out;
  if (nest.order.size() < 2) return out;
  const int columns = nest.order.back();
  if (extent_of(nest, columns) < 8) return out;
  for (const auto& s : nest.dag.stores) {
    int64_t c = 0;
    if (!s.offset.affine_in(columns, 1, &c) || c != 1) return out;
  }
  for (size_t k = 0; k < nest.dag.elements.size(); ++k) {
    const Element& e = nest.dag.elements[k];
    int64_t c = 0;
    if (e.kind != Element::Kind::load || e.guard >= 0 || has_elements(e.offset)) continue;
    if (!e.offset.affine_in(columns, 1, &c) || c == 0 || c == 1) continue;
    for (const int v : nest.order) {
      int64_t across = 0;
      if (v == columns || extent_of(nest, v) < 8 || !e.offset.affine_in(v, 1, &across) || across != 1) continue;
      if (out.rows >= 0 && out.rows != v) continue;
      out.rows = v;
      out.columns = columns;
      out.loads.push_back(static_cast<int>(k));
    }
  }
  return out;
}

TilePlan plan_tiles(const LoopNest& nest, const Tile& tile, int64_t edge, int64_t elements_per_group) {
  TilePlan out;
  int64_t side = 1;
  while ((side + 1) * edge * (side + 1) * edge <= elements_per_group) ++side;
  const int64_t row_tiles = tiles_along(extent_of(nest, tile.rows), edge), column_tiles = tiles_along(extent_of(nest, tile.columns), edge);
  out.row_side = std::min(side, row_tiles);
  out.column_side = std::min(side, column_tiles);
  out.row_blocks = tiles_along(row_tiles, out.row_side);
  out.column_blocks = tiles_along(column_tiles, out.column_side);
  out.blocks = out.row_blocks * out.column_blocks;
  for (const int v : nest.order)
    if (v != tile.rows && v != tile.columns) out.blocks *= extent_of(nest, v);
  out.blocks_per_group = std::max<int64_t>(1, elements_per_group / (out.row_side * edge * out.column_side * edge));
  out.groups = tiles_along(out.blocks, out.blocks_per_group);
  for (const int k : tile.loads) {
    const auto& e = nest.dag.elements[static_cast<size_t>(k)];
    out.scratch_bytes += edge * edge * ir::bytes_of(nest.dag.buffers[static_cast<size_t>(e.buffer)].dtype);
  }
  return out;
}

void print_tiles(codegen::Source& source, const LoopNest& nest, const Tile& tile, const TilePlan& plan, int64_t edge,
                 const codegen::NestStyle& style) {
  const int64_t rows = extent_of(nest, tile.rows), columns = extent_of(nest, tile.columns);
  const int64_t row_tiles = tiles_along(rows, edge), column_tiles = tiles_along(columns, edge);
  // New variables: which tile, and where in it.
  const int first = static_cast<int>(nest.extents.size());
  const int tile_row = first, tile_column = first + 1, row = first + 2, column = first + 3;
  const std::map<int, Index> inside = {
      {tile.rows, Index::variable(tile_row, row_tiles) * edge + Index::variable(row, std::min(edge, rows))},
      {tile.columns, Index::variable(tile_column, column_tiles) * edge + Index::variable(column, std::min(edge, columns))}};
  const auto name = [](int v) { return "v" + std::to_string(v); };

  ElementDag dag = nest.dag;
  codegen::RowLoop loop;
  struct Fill {
    std::string scratch, type, pointer, offset;
    int64_t stride = 0;
  };
  std::vector<Fill> fills;
  int64_t scratch_at = 0;
  for (auto& e : dag.elements) e.offset = e.offset.substitute(inside);
  for (auto& s : dag.stores) s.offset = s.offset.substitute(inside);
  for (const int k : tile.loads) {
    Element& e = dag.elements[static_cast<size_t>(k)];
    Fill fill;
    const bool affine = e.offset.affine_in(column, 1, &fill.stride);
    RTX_ASSERT(affine, "a tiled load is affine along the row");
    fill.type = codegen::type_text(dag.buffers[static_cast<size_t>(e.buffer)].dtype);
    fill.pointer = "b" + std::to_string(e.buffer);
    fill.offset = e.offset.substitute({{row, Index(0)}, {column, Index(0)}}).text(name, name);
    fill.scratch = source.fresh("block");
    source.line(fill.type + "* const " + fill.scratch + " = reinterpret_cast<" + fill.type + "*>(static_cast<u8*>(scratch) + " + std::to_string(scratch_at) + ");");
    scratch_at += edge * edge * ir::bytes_of(dag.buffers[static_cast<size_t>(e.buffer)].dtype);
    codegen::DagBuffer block = dag.buffers[static_cast<size_t>(e.buffer)];
    e.offset = Index::variable(row, std::min(edge, rows)) * edge + Index::variable(column, std::min(edge, columns));
    e.buffer = static_cast<int>(dag.buffers.size());
    loop.buffers[e.buffer] = fill.scratch;
    dag.buffers.push_back(block);
    fills.push_back(std::move(fill));
  }

  std::string t = style.group;
  if (plan.blocks_per_group > 1) {
    t = source.fresh("block_number");
    const std::string p = std::to_string(plan.blocks_per_group);
    source.open("for (i64 " + t + " = " + style.group + " * " + p + "; " + t + " < (" + style.group + " + 1) * " + p +
                (plan.blocks % plan.blocks_per_group == 0 ? "" : " && " + t + " < " + std::to_string(plan.blocks)) + "; ++" + t + ")");
  }
  int64_t below = 1;
  const auto decoded = [&](int64_t n) {
    const std::string text = (below == 1 ? t : t + " / " + std::to_string(below)) + " % " + std::to_string(n);
    below *= n;
    return text;
  };
  const auto walk_tiles = [&](int v, int64_t side, int64_t blocks, int64_t all) {
    const std::string first = source.fresh("first"), s = std::to_string(side);
    source.line("const i64 " + first + " = " + (blocks == 1 ? std::string("0") : "(" + decoded(blocks) + ") * " + s) + ";");
    return "for (i64 " + name(v) + " = " + first + "; " + name(v) + " < " + first + " + " + s + (all % side == 0 ? "" : " && " + name(v) + " < " + std::to_string(all)) +
           "; ++" + name(v) + ")";
  };
  const std::string over_columns = walk_tiles(tile_column, plan.column_side, plan.column_blocks, column_tiles);
  const std::string over_rows = walk_tiles(tile_row, plan.row_side, plan.row_blocks, row_tiles);
  for (size_t k = nest.order.size(); k-- > 0;)
    if (nest.order[k] != tile.rows && nest.order[k] != tile.columns)
      source.line("const i64 " + name(nest.order[k]) + " = " + decoded(extent_of(nest, nest.order[k])) + ";");
  source.open(over_rows);
  source.open(over_columns);
  const auto limit = [&](int64_t n, int tile_variable) {
    const std::string size = std::to_string(edge);
    if (n % edge == 0) return size;
    const std::string text = source.fresh(tile_variable == tile_row ? "rows" : "columns"), left = std::to_string(n) + " - " + name(tile_variable) + " * " + size;
    source.line("const i64 " + text + " = " + left + " < " + size + " ? " + left + " : " + size + ";");
    return text;
  };
  const std::string row_count = limit(rows, tile_row), column_count = limit(columns, tile_column);
  const std::string size = std::to_string(edge);
  // Beyond the caches every line is a miss that only a prefetch can overlap (4096 x 4096 f32: 27 ms without, 17 with).
  const bool far = nest.count() >= (1 << 18);
  for (const auto& fill : fills)
    if (far) source.line("tile::fetch_rows(" + fill.pointer + " + " + fill.offset + " + " + std::to_string(edge * fill.stride) + ", " + std::to_string(fill.stride) + ", " + size + ", " + size + ");");
  for (const auto& fill : fills)
    source.line("tile::transpose(" + fill.pointer + " + " + fill.offset + ", " + std::to_string(fill.stride) + ", " + fill.scratch + ", " +
                std::to_string(edge) + ", " + column_count + ", " + row_count + ");");
  source.open("for (i64 " + name(row) + " = 0; " + name(row) + " < " + row_count + "; ++" + name(row) + ")");
  for (const auto& s : dag.stores)
    if (far && !has_elements(s.offset))
      source.line("tile::fetch_for_writing(b" + std::to_string(s.buffer) + " + " + (s.offset.substitute({{column, Index(0)}}) + Index(edge)).text(name, name) + ", " + size + ");");
  loop.inner = column;
  loop.count = column_count;
  loop.vector_width = style.vector_width;
  loop.unroll = style.unroll;
  codegen::print_row(source, dag, loop);
  source.close();
  source.close();
  source.close();
  if (plan.blocks_per_group > 1) source.close();
}

}  // namespace rtx::kernels

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
  int64_t tiles = tiles_along(extent_of(nest, tile.rows), edge) * tiles_along(extent_of(nest, tile.columns), edge);
  for (const int v : nest.order)
    if (v != tile.rows && v != tile.columns) tiles *= extent_of(nest, v);
  out.tiles_per_group = std::max<int64_t>(1, elements_per_group / (edge * edge));
  out.groups = tiles_along(tiles, out.tiles_per_group);
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

  // Tiles of one group are neighbours along the row, so that both sides stay in cached pages.
  int64_t tiles = row_tiles * column_tiles;
  for (const int v : nest.order)
    if (v != tile.rows && v != tile.columns) tiles *= extent_of(nest, v);
  std::string t = style.group;
  if (plan.tiles_per_group > 1) {
    t = source.fresh("t");
    const std::string p = std::to_string(plan.tiles_per_group);
    source.open("for (i64 " + t + " = " + style.group + " * " + p + "; " + t + " < (" + style.group + " + 1) * " + p +
                (tiles % plan.tiles_per_group == 0 ? "" : " && " + t + " < " + std::to_string(tiles)) + "; ++" + t + ")");
  }
  int64_t below = 1;
  const auto decode = [&](int v, int64_t n) {
    source.line("const i64 " + name(v) + " = " + (below == 1 ? t : t + " / " + std::to_string(below)) + " % " + std::to_string(n) + ";");
    below *= n;
  };
  decode(tile_column, column_tiles);
  decode(tile_row, row_tiles);
  for (size_t k = nest.order.size(); k-- > 0;)
    if (nest.order[k] != tile.rows && nest.order[k] != tile.columns) decode(nest.order[k], extent_of(nest, nest.order[k]));
  const auto limit = [&](int64_t n, int tile_variable) {
    const std::string size = std::to_string(edge);
    if (n % edge == 0) return size;
    const std::string text = source.fresh(tile_variable == tile_row ? "rows" : "columns"), left = std::to_string(n) + " - " + name(tile_variable) + " * " + size;
    source.line("const i64 " + text + " = " + left + " < " + size + " ? " + left + " : " + size + ";");
    return text;
  };
  const std::string row_count = limit(rows, tile_row), column_count = limit(columns, tile_column);
  for (const auto& fill : fills)
    source.line("tile::transpose(" + fill.pointer + " + " + fill.offset + ", " + std::to_string(fill.stride) + ", " + fill.scratch + ", " +
                std::to_string(edge) + ", " + column_count + ", " + row_count + ");");
  source.open("for (i64 " + name(row) + " = 0; " + name(row) + " < " + row_count + "; ++" + name(row) + ")");
  loop.inner = column;
  loop.count = column_count;
  loop.vector_width = style.vector_width;
  loop.unroll = style.unroll;
  codegen::print_row(source, dag, loop);
  source.close();
  if (plan.tiles_per_group > 1) source.close();
}

}  // namespace rtx::kernels

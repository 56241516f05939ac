// Nest programs for groups of many threads. A step (a vector along a row, or a single element behind the last whole one) is a thread's;
// neighbouring threads take neighbouring steps. A nest that reads across its rows goes through tiles in scratch, so that both sides are
// accessed along memory.
#include <algorithm>
#include <map>

#include "base/assert.h"
#include "codegen/print.h"
#include "kernels/anchored.h"
#include "kernels/nest_tiles.h"
#include "kernels/nests.h"

namespace rtx::kernels {

using codegen::Element;
using codegen::ElementDag;
using codegen::Index;
using codegen::LoopNest;
using codegen::Source;

namespace {

int64_t extent_along(const LoopNest& nest, int v) { return nest.extents[static_cast<size_t>(v)]; }

struct StepPart {
  Tile tile;
  int64_t groups = 0, row_tiles = 1, column_tiles = 1, scratch_bytes = 0;
  int first_argument = 0;
};

std::string number(int64_t x) { return std::to_string(x); }

// A tile's line is one element longer than its edge, so that a column of it lies in different banks.
int64_t tile_bytes(const LoopNest& nest, const Tile& tile, int64_t edge) {
  int64_t bytes = 0;
  for (const int k : tile.loads) {
    const auto& e = nest.dag.elements[static_cast<size_t>(k)];
    bytes += ceil_div(edge * (edge + 1) * ir::bytes_of(nest.dag.buffers[static_cast<size_t>(e.buffer)].dtype), 16) * 16;
  }
  return bytes;
}

void print_tile(Source& source, const LoopNest& nest, const StepPart& part, int64_t edge, int64_t threads, const std::string& group) {
  const Tile& tile = part.tile;
  const int64_t rows = extent_along(nest, tile.rows), columns = extent_along(nest, tile.columns);
  const int first = static_cast<int>(nest.extents.size());
  const int tile_row = first, tile_column = first + 1, row = first + 2, column = first + 3;
  const std::map<int, Index> inside = {
      {tile.rows, Index::variable(tile_row, part.row_tiles) * edge + Index::variable(row, std::min(edge, rows))},
      {tile.columns, Index::variable(tile_column, part.column_tiles) * edge + Index::variable(column, std::min(edge, columns))}};
  const auto name = [](int v) { return "v" + number(v); };

  std::vector<int64_t> extents = nest.extents;
  extents.push_back(part.row_tiles);
  extents.push_back(part.column_tiles);
  std::vector<int> order;
  for (const int v : nest.order)
    if (v != tile.rows && v != tile.columns) order.push_back(v);
  order.push_back(tile_row);
  order.push_back(tile_column);
  codegen::print_coordinates(source, extents, order, group, part.groups);

  ElementDag dag = nest.dag;
  codegen::RowLoop loop;
  for (auto& e : dag.elements) e.offset = e.offset.substitute(inside);
  for (auto& s : dag.stores) s.offset = s.offset.substitute(inside);
  const auto limit = [&](int64_t n, int v, const char* what) {
    if (n % edge == 0) return number(edge);
    const std::string text = source.fresh(what), left = number(n) + " - " + name(v) + " * " + number(edge);
    source.line("const i64 " + text + " = " + left + " < " + number(edge) + " ? " + left + " : " + number(edge) + ";");
    return text;
  };
  const std::string row_count = limit(rows, tile_row, "rows"), column_count = limit(columns, tile_column, "columns");
  int64_t scratch_at = 0;
  const std::string each = number(threads), e2 = number(edge * edge);
  const std::string k = source.fresh("k"), across = source.fresh("across"), along = source.fresh("along");
  std::vector<std::string> fills;
  for (const int load : tile.loads) {
    Element& e = dag.elements[static_cast<size_t>(load)];
    int64_t stride = 0;
    const bool affine = e.offset.affine_in(column, 1, &stride);
    RTX_ASSERT(affine, "a tiled load is affine along the row");
    codegen::DagBuffer block = dag.buffers[static_cast<size_t>(e.buffer)];
    const std::string type = codegen::type_text(block.dtype), scratch = source.fresh("tile");
    const std::string from = "b" + number(e.buffer) + "[" + e.offset.substitute({{row, Index(0)}, {column, Index(0)}}).text(name, name) + " + " + across + " * " +
                             number(stride) + " + " + along + "]";
    source.line(type + "* const " + scratch + " = reinterpret_cast<" + type + "*>(static_cast<u8*>(scratch) + " + number(scratch_at) + ");");
    scratch_at += ceil_div(edge * (edge + 1) * ir::bytes_of(block.dtype), 16) * 16;
    fills.push_back("if (" + across + " < " + column_count + " && " + along + " < " + row_count + ") " + scratch + "[" + along + " * " + number(edge + 1) + " + " +
                    across + "] = " + from + ";");
    e.offset = Index::variable(row, std::min(edge, rows)) * (edge + 1) + Index::variable(column, std::min(edge, columns));
    e.buffer = static_cast<int>(dag.buffers.size());
    loop.buffers[e.buffer] = scratch;
    dag.buffers.push_back(block);
  }
  source.line("UNROLL_BY(4)");
  source.open("for (i64 " + k + " = thread(); " + k + " < " + e2 + "; " + k + " += " + each + ")");
  source.line("const i64 " + across + " = " + k + " / " + number(edge) + ", " + along + " = " + k + " % " + number(edge) + ";");
  for (const auto& fill : fills) source.line(fill);
  source.close();
  source.line("barrier();");
  source.open("for (i64 " + k + " = thread(); " + k + " < " + e2 + "; " + k + " += " + each + ")");
  source.line("const i64 " + name(row) + " = " + k + " / " + number(edge) + ", " + name(column) + " = " + k + " % " + number(edge) + ";");
  source.open("if (" + name(row) + " < " + row_count + " && " + name(column) + " < " + column_count + ")");
  loop.inner = column;
  loop.at = name(column);
  loop.vector_width = 1;
  codegen::print_row(source, dag, loop);
  source.close();
  source.close();
}

}  // namespace

Space<NestParams> nest_space_gpu(const NestProgram& program, const backend::Caps& caps) {
  int64_t widest = 1, narrowest = 8;  // bytes of an element in memory
  for (const auto& nest : program.nests) {
    for (const auto& buffer : nest.dag.buffers) widest = std::max(widest, ir::bytes_of(buffer.dtype));
    for (const auto& s : nest.dag.stores) narrowest = std::min(narrowest, ir::bytes_of(nest.dag.buffers[static_cast<size_t>(s.buffer)].dtype));
  }
  const bool tiled = program.tiled();
  const int64_t access = std::max<int64_t>(1, caps.vector_bits / 8 / widest), cores = std::max(1, caps.cores), scratch = caps.scratch_bytes;
  NestParams best;
  best.threads = 256;
  best.unroll = 1;
  best.elements_per_group = 0;  // follows from the others
  best.tile = tiled && narrowest <= 2 ? 64 : 32;
  best.vector_width = access;
  // Little work: narrower steps, so that every core has some.
  while (best.vector_width > 1 && program.count() / best.vector_width < cores * 512) best.vector_width /= 2;
  if (program.count() / best.vector_width > cores * 16384) best.unroll = 2;
  return Space<NestParams>{}
      .axis("vector_width", &NestParams::vector_width, {1, 2, 4, 8, 16})
      .axis("unroll", &NestParams::unroll, {1, 2, 4})
      .axis("threads", &NestParams::threads, {128, 256, 512})
      .axis("tile", &NestParams::tile, {32, 64})
      .require("a step of the widest type is one access", [=](const NestParams& p) { return p.vector_width <= access || p.vector_width == 1; })
      .require("a step fills a quarter of an access", [=](const NestParams& p) { return p.vector_width * 4 >= access || p.vector_width == best.vector_width; })
      .require("the tile matters only to nests that read across their rows", [=](const NestParams& p) { return tiled || p.tile == best.tile; })
      .require("the tiles of a nest fit the group's memory",
               [=](const NestParams& p) {
                 return std::all_of(program.nests.begin(), program.nests.end(), [&](const LoopNest& n) {
                   const Tile tile = find_tile(n);
                   return tile.rows < 0 || tile_bytes(n, tile, p.tile) <= scratch;
                 });
               })
      .prefer(best);
}

Result<backend::KernelPlan> emit_program_gpu(const NestProgram& program, const std::string& name, const std::string& generator, const NestParams& params,
                                             const Work& work, const backend::Caps& caps, const codegen::Dialect& dialect) {
  Source source(dialect, name, generator, nest_space_gpu(program, caps).text(params), work_text(work));
  backend::KernelPlan plan;
  plan.name = name;
  plan.numerics_class = "elementwise";  // no sum, hence nothing that a parameter could reorder
  backend::Launch launch;
  launch.entry = name;
  launch.grid.x = 0;
  launch.group.x = params.threads;
  std::vector<StepPart> parts;
  for (const auto& nest : program.nests) {
    StepPart part;
    part.tile = find_tile(nest);
    if (part.tile.rows >= 0) {
      part.row_tiles = ceil_div(extent_along(nest, part.tile.rows), params.tile);
      part.column_tiles = ceil_div(extent_along(nest, part.tile.columns), params.tile);
      part.groups = nest.count() / extent_along(nest, part.tile.rows) / extent_along(nest, part.tile.columns) * part.row_tiles * part.column_tiles;
      launch.scratch_bytes = std::max(launch.scratch_bytes, tile_bytes(nest, part.tile, params.tile));
    } else {
      part.groups = ceil_div(codegen::steps_of(nest, params.vector_width), params.threads * params.unroll);
    }
    part.first_argument = static_cast<int>(launch.arguments.size());
    for (const auto& argument : codegen::buffer_arguments(nest.dag)) launch.arguments.push_back(argument);
    launch.grid.x += part.groups;
    parts.push_back(part);
  }

  source.open_kernel(name, static_cast<int>(params.threads));
  if (parts.size() == 1) codegen::print_buffers(source, program.nests[0].dag, 0);
  source.open("GROUP_LOOP(g)");
  int64_t begin = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    const StepPart& part = parts[k];
    const LoopNest& nest = program.nests[k];
    std::string group = "g";
    if (parts.size() > 1) {
      source.open(k + 1 < parts.size() ? "if (g < " + number(begin + part.groups) + ")" : "");
      codegen::print_buffers(source, nest.dag, part.first_argument);
      group = source.fresh("piece");
      source.line("const i64 " + group + " = g - " + number(begin) + ";");
    }
    if (part.tile.rows >= 0) {
      print_tile(source, nest, part, params.tile, params.threads, group);
    } else {
      const int64_t steps = codegen::steps_of(nest, params.vector_width), each = params.threads * params.unroll;
      const std::string step = source.fresh("step");
      if (params.unroll == 1) {
        source.line("const i64 " + step + " = " + group + " * " + number(each) + " + thread();");
        source.open(steps % each == 0 ? "" : "if (" + step + " < " + number(steps) + ")");
      } else {
        source.line("UNROLL_BY(" + number(params.unroll) + ")");
        source.open("for (int turn = 0; turn < " + number(params.unroll) + "; ++turn)");
        source.line("const i64 " + step + " = " + group + " * " + number(each) + " + turn * " + number(params.threads) + " + thread();");
        if (steps % each != 0) source.line("if (" + step + " >= " + number(steps) + ") break;");
      }
      codegen::print_step(source, nest, params.vector_width, step);
      source.close();
    }
    if (parts.size() > 1) {
      if (k + 1 < parts.size()) source.line("continue;");
      source.close();
    }
    begin += part.groups;
  }
  source.close();
  source.close_kernel(static_cast<int64_t>(launch.arguments.size()));
  plan.text = source.take();
  if (launch.grid.x > 0) plan.steps.push_back(std::move(launch));
  return plan;
}

}  // namespace rtx::kernels

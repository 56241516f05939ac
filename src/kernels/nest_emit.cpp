#include <algorithm>

#include "codegen/print.h"
#include "kernels/nest_tiles.h"
#include "kernels/nests.h"

namespace rtx::kernels {

using codegen::Source;

Result<backend::KernelPlan> emit_program(const NestProgram& program, const std::string& name, const std::string& generator, const NestParams& params,
                                         const Work& work, const backend::Caps& caps, const codegen::Dialect& dialect) {
  if (!dialect.explicit_vectors) return emit_program_gpu(program, name, generator, params, work, caps, dialect);
  Space<NestParams> names;
  names.axis("vector_width", &NestParams::vector_width, {}).axis("unroll", &NestParams::unroll, {});
  names.axis("elements_per_group", &NestParams::elements_per_group, {}).axis("tile", &NestParams::tile, {});
  Source source(dialect, name, generator, names.text(params), work_text(work));
  source.include("kernels/device_tile.h");
  codegen::NestStyle style;
  style.vector_width = static_cast<int>(params.vector_width);
  style.unroll = static_cast<int>(params.unroll);

  backend::KernelPlan plan;
  plan.name = name;
  plan.numerics_class = "elementwise";  // no sum, hence nothing that a parameter could reorder
  backend::Launch launch;
  launch.entry = name;
  launch.grid.x = 0;

  struct Part {
    codegen::Chunks chunks;
    Tile tile;
    TilePlan tiles;
    int64_t groups = 0;
    int first_argument = 0;
  };
  std::vector<Part> parts;
  for (const auto& nest : program.nests) {
    Part part;
    part.tile = find_tile(nest);
    if (part.tile.rows >= 0) {
      part.tiles = plan_tiles(nest, part.tile, params.tile, params.elements_per_group);
      part.groups = part.tiles.groups;
      launch.scratch_bytes = std::max(launch.scratch_bytes, part.tiles.scratch_bytes);
    } else {
      part.chunks = codegen::divide(nest, params.elements_per_group, std::max<int64_t>(64, params.vector_width * params.unroll));
      part.groups = part.chunks.groups;
    }
    part.first_argument = static_cast<int>(launch.arguments.size());
    for (const auto& argument : codegen::buffer_arguments(nest.dag)) launch.arguments.push_back(argument);
    launch.grid.x += part.groups;
    parts.push_back(part);
  }

  source.open("KERNEL(" + name + ")");
  if (parts.size() == 1) codegen::print_buffers(source, program.nests[0].dag, 0);
  source.open("GROUP_LOOP(g)");
  int64_t begin = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    const Part& part = parts[k];
    if (parts.size() > 1) {
      source.open(k + 1 < parts.size() ? "if (g < " + std::to_string(begin + part.groups) + ")" : "");
      codegen::print_buffers(source, program.nests[k].dag, part.first_argument);
      style.group = source.fresh("piece");
      source.line("const i64 " + style.group + " = g - " + std::to_string(begin) + ";");
    }
    if (part.tile.rows >= 0) print_tiles(source, program.nests[k], part.tile, part.tiles, params.tile, style);
    else codegen::print_nest(source, program.nests[k], part.chunks, style);
    if (parts.size() > 1) {
      if (k + 1 < parts.size()) source.line("continue;");
      source.close();
    }
    begin += part.groups;
  }
  source.close();
  source.close();
  plan.text = source.take();
  if (launch.grid.x > 0) plan.steps.push_back(std::move(launch));
  return plan;
}

}  // namespace rtx::kernels

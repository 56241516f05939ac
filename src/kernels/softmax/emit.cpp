#include <fmt/core.h>

#include "kernels/anchored.h"
#include "kernels/softmax/softmax.h"

namespace rtx::kernels::softmax {

namespace {

struct Text {
  codegen::Source& source;
  const Problem& problem;
  codegen::RowLoop prologue, epilogue;
};

std::string lanes_load(const std::string& pointer, int width, const std::string& i) {
  return width == 1 ? fmt::format("{}[{}]", pointer, i) : fmt::format("load<vec<f32, {}>>({} + {})", width, pointer, i);
}

void rows(Text& t, const Params& params) {
  const Problem& p = t.problem;
  auto& source = t.source;
  const std::string first = fmt::format("group * {}", params.rows_per_group);
  source.line("f32* const row = static_cast<f32*>(scratch);");
  source.open("GROUP_LOOP(group)");
  if (p.outer % params.rows_per_group == 0) source.line(fmt::format("const i64 last = {} + {};", first, params.rows_per_group));
  else source.line(fmt::format("const i64 last = {0} + {1} < {2} ? {0} + {1} : {2};", first, params.rows_per_group, p.outer));
  source.open(fmt::format("for (i64 r = {}; r < last; ++r)", first));
  for (auto* loop : {&t.prologue, &t.epilogue}) {
    loop->inner = 1;
    loop->outer = {{0, "r"}};
    loop->count = std::to_string(p.axis);
  }
  t.prologue.after = [&](codegen::Source& s, int, const std::string& i, const auto& value) {
    s.line(fmt::format("store(row + {}, {});", i, value(p.x)));
  };
  codegen::print_row(source, p.prologue, t.prologue);
  source.line(fmt::format("const f32 greatest = softmax::greatest(row, {});", p.axis));
  source.line(fmt::format("const f32 sum = softmax::exponentials<{}>(row, {}, greatest);", !p.logarithm, p.axis));
  source.line(p.logarithm ? "const f32 log_sum = math::log(sum);" : "const f32 scale = 1.f / sum;");
  t.epilogue.leaf = [&](int, int width, const std::string& i) {
    return lanes_load("row", width, i) + (p.logarithm ? " - greatest - log_sum" : " * scale");
  };
  codegen::print_row(source, p.epilogue, t.epilogue);
  source.close();
  source.close();
}

// scratch: [axis][columns] of x, then shift[columns] and scale[columns].
void columns(Text& t, const Params& params) {
  const Problem& p = t.problem;
  auto& source = t.source;
  const int64_t width = params.columns, tiles = ceil_div(p.inner, width);
  source.line("f32* const tile = static_cast<f32*>(scratch);");
  source.line(fmt::format("f32* const shift = tile + {};", p.axis * width));
  source.line(fmt::format("f32* const scale = shift + {};", width));
  source.open("GROUP_LOOP(group)");
  source.line(tiles == 1 ? "const i64 outer = group, first = 0;"
                         : fmt::format("const i64 outer = group / {0}, first = group % {0} * {1};", tiles, width));
  const bool ragged = p.inner % width != 0;
  if (ragged) source.line(fmt::format("const i64 count = {0} - first < {1} ? {0} - first : {1};", p.inner, width));
  for (auto* loop : {&t.prologue, &t.epilogue}) {
    loop->inner = 2;
    loop->outer = {{0, "outer"}, {1, "j"}};
    loop->begin = "first";
    loop->begin_alignment = width;
    loop->count = ragged ? "count" : std::to_string(width);
  }
  t.prologue.after = [&](codegen::Source& s, int, const std::string& i, const auto& value) {
    s.line(fmt::format("store(tile + j * {} + {}, {});", width, i, value(p.x)));
  };
  const std::string each = fmt::format("for (i64 j = 0; j < {}; ++j)", p.axis);
  source.open(each);
  codegen::print_row(source, p.prologue, t.prologue);
  source.close();
  // Lanes behind `count` hold what an earlier group left there; nothing reads their results.
  source.open(fmt::format("for (i64 c = 0; c < {}; c += VEC)", ragged ? "count" : std::to_string(width)));
  source.line(fmt::format("const softmax::V greatest = softmax::greatest_of_columns(tile + c, {}, {});", p.axis, width));
  source.line(fmt::format("const softmax::V sum = softmax::exponentials_of_columns<{}>(tile + c, {}, {}, greatest);", !p.logarithm, p.axis, width));
  if (p.logarithm) source.line("store(shift + c, greatest);");
  source.line(p.logarithm ? "store(scale + c, math::log(sum));" : "store(scale + c, softmax::V(1.f / sum));");
  source.close();
  t.epilogue.leaf = [&](int, int lanes, const std::string& i) {
    const std::string x = lanes_load(fmt::format("(tile + j * {})", width), lanes, i), scale = lanes_load("scale", lanes, i);
    return p.logarithm ? x + " - " + lanes_load("shift", lanes, i) + " - " + scale : x + " * " + scale;
  };
  source.open(each);
  codegen::print_row(source, p.epilogue, t.epilogue);
  source.close();
  source.close();
}

}  // namespace

Result<backend::KernelPlan> Softmax::emit(const Problem& p, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  if (!dialect.explicit_vectors) return emit_gpu(p, params, caps, dialect);
  backend::KernelPlan plan;
  plan.name = fmt::format("{}_{}_{}x{}", p.logarithm ? "log_softmax" : "softmax", ir::name(p.dtype), p.outer, p.axis);
  if (p.column_form) plan.name += fmt::format("x{}", p.inner);
  plan.numerics_class = fmt::format("softmax {} {} lanes", p.column_form ? "columns" : "rows", caps.vector_bits / 32);
  const auto work = Softmax::work(p);
  codegen::Source source(dialect, plan.name, "kernels/softmax/emit.cpp",
                         p.column_form ? fmt::format("columns={}", params.columns) : fmt::format("rows={}", params.rows_per_group),
                         work_text(work.flops, work.bytes()));
  if (p.outer * p.axis * p.inner == 0) {
    plan.text = source.take();
    return plan;
  }
  source.include("codegen/row.inc.h");
  source.include("kernels/softmax/device.h");
  Arguments arguments;
  source.open(fmt::format("KERNEL({})", plan.name));
  Text text{source, p, {}, {}};
  text.prologue.buffers = arguments.bind(source, p.prologue);
  text.epilogue.buffers = arguments.bind(source, p.epilogue);
  text.prologue.vector_width = text.epilogue.vector_width = dialect.preferred_lanes_f32;
  if (p.column_form) columns(text, params);
  else rows(text, params);
  source.close();

  plan.text = source.take();
  backend::Launch launch;
  launch.entry = plan.name;
  launch.grid.x = p.column_form ? p.outer * ceil_div(p.inner, params.columns) : ceil_div(p.outer, params.rows_per_group);
  launch.scratch_bytes = p.column_form ? (p.axis + 2) * params.columns * 4 : p.axis * 4;
  launch.arguments = arguments.list();
  plan.steps = {launch};
  return plan;
}

}  // namespace rtx::kernels::softmax

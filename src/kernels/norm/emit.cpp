#include <fmt/core.h>

#include "kernels/anchored.h"
#include "kernels/norm/norm.h"

namespace rtx::kernels::norm {

namespace {

// While one row is finished the next is brought near: its loads would else wait with nothing to compute beside them. Measured with
// GELU behind a layer norm of 4096 x 1024: 10 to 20 % of the time.
void prefetch_next_row(codegen::Source& source, const codegen::ElementDag& prologue, const std::map<int, std::string>& names, const std::string& i) {
  for (const auto& e : prologue.elements) {
    if (e.kind != codegen::Element::Kind::load || e.guard >= 0) continue;
    bool of_elements = false;
    e.offset.walk([&](const codegen::Index& part) { of_elements = of_elements || part.kind() == codegen::Index::Kind::element; });
    int64_t row_step = 0, step = 0;
    if (of_elements || !e.offset.affine_in(0, 1, &row_step) || row_step == 0 || !e.offset.affine_in(1, 1, &step) || step != 1) continue;
    const auto name = [&](int id) { return id == 0 ? std::string("(r + 1)") : i; };
    source.line(fmt::format("__builtin_prefetch({} + {});", names.at(e.buffer), e.offset.text(name, [](int) { return std::string(); })));
  }
}

}  // namespace

Result<backend::KernelPlan> Norm::emit(const Problem& p, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  backend::KernelPlan plan;
  plan.name = fmt::format("{}_{}_{}x{}", p.op, ir::name(p.dtype), p.rows, p.columns);
  const auto work = Norm::work(p);
  codegen::Source source(dialect, plan.name, "kernels/norm/emit.cpp", fmt::format("rows={} unroll={}", params.rows_per_group, params.unroll),
                         work_text(work.flops, work.bytes()));
  plan.numerics_class = fmt::format("norm {} lanes", caps.vector_bits / 32);
  if (p.rows * p.columns == 0) {
    plan.text = source.take();
    return plan;
  }
  source.include("codegen/row.inc.h");
  source.include("kernels/norm/device.h");

  Arguments arguments;
  source.open(fmt::format("KERNEL({})", plan.name));
  codegen::RowLoop prologue, statistics, epilogue;
  prologue.buffers = arguments.bind(source, p.prologue);
  statistics.buffers = arguments.bind(source, p.statistics);
  epilogue.buffers = arguments.bind(source, p.epilogue);
  source.line("f32* const row = static_cast<f32*>(scratch);");
  source.open("GROUP_LOOP(group)");
  const std::string first = fmt::format("group * {}", params.rows_per_group);
  if (p.rows % params.rows_per_group == 0) source.line(fmt::format("const i64 last = {} + {};", first, params.rows_per_group));
  else source.line(fmt::format("const i64 last = {0} + {1} < {2} ? {0} + {1} : {2};", first, params.rows_per_group, p.rows));
  source.open(fmt::format("for (i64 r = {}; r < last; ++r)", first));

  for (auto* loop : {&prologue, &statistics, &epilogue}) {
    loop->inner = 1;
    loop->outer = {{0, "r"}};
    loop->count = std::to_string(p.columns);
    loop->vector_width = dialect.preferred_lanes_f32;
    loop->unroll = static_cast<int>(params.unroll);
  }
  prologue.after = [&](codegen::Source& s, int, const std::string& i, const auto& value) {
    s.line(fmt::format("store(row + {}, {});", i, value(p.x)));
  };
  codegen::print_row(source, p.prologue, prologue);

  const std::string epsilon = codegen::literal_text(ir::DType::f64, p.epsilon, 0);
  if (p.centred) {
    const char* by = p.statistics.stores.empty() ? "centred" : "centred_carefully";
    source.line(fmt::format("const norm::Centred centred = norm::{}(row, {}, {});", by, p.columns, epsilon));
    source.line("const f32 shift = centred.shift, spread = centred.spread, offset = -(centred.rest * spread);");
  } else {
    source.line(fmt::format("const f32 squares = norm::squares(row, {});", p.columns));
    source.line(fmt::format("const f32 spread = norm::spread(squares, row, {}, {});", p.columns, epsilon));
  }
  const std::string mean = "f32(f64(shift) + f64(centred.rest))";
  if (!p.statistics.stores.empty()) {
    statistics.count = "1";
    statistics.vector_width = 1;
    statistics.leaf = [&](int leaf, int, const std::string&) { return leaf == kMean ? mean : std::string("spread"); };
    source.open("");
    codegen::print_row(source, p.statistics, statistics);
    source.close();
  }
  if (!p.epilogue.stores.empty()) {
    epilogue.leaf = [&](int leaf, int width, const std::string& i) -> std::string {
      if (leaf == kMean) return mean;
      if (leaf == kSpread) return "spread";
      const std::string type = width == 1 ? "f32" : fmt::format("vec<f32, {}>", width);
      const std::string x = width == 1 ? fmt::format("row[{}]", i) : fmt::format("load<{}>(row + {})", type, i);
      if (!p.centred) return fmt::format("{} * spread", x);
      return fmt::format("math::fma({0}({1} - shift), splat<{0}>(spread), splat<{0}>(offset))", type, x);
    };
    epilogue.after = [&](codegen::Source& s, int width, const std::string& i, const auto&) {
      if (width > 1) prefetch_next_row(s, p.prologue, prologue.buffers, i);
    };
    source.open("");
    codegen::print_row(source, p.epilogue, epilogue);
    source.close();
  }
  source.close();
  source.close();
  source.close();

  plan.text = source.take();
  backend::Launch launch;
  launch.entry = plan.name;
  launch.grid.x = ceil_div(p.rows, params.rows_per_group);
  launch.scratch_bytes = p.columns * 4;
  launch.arguments = arguments.list();
  plan.steps = {launch};
  return plan;
}

}  // namespace rtx::kernels::norm

#include <algorithm>
#include <fmt/core.h>

#include "kernels/anchored.h"
#include "kernels/rotary/rotary.h"

namespace rtx::kernels::rotary {

Space<Params> Rotary::space(const Problem& p, const backend::Caps& caps) {
  const auto work = Rotary::work(p);
  const int64_t rows = std::max<int64_t>(1, p.rows), cores = std::max(1, caps.cores), bytes = p.columns * 4, scratch = caps.scratch_bytes;
  const double memory = work.bytes() / std::max(1.0, caps.copy_gbps * 1e6);
  if (caps.lanes_per_wave > 1)
    return Space<Params>{}.axis("rows", &Params::rows_per_group, {0}).axis("threads", &Params::threads, {128, 256}).prefer({0, 256}).estimate([=](const Params&) { return memory; });
  Params best{1};
  while (best.rows_per_group < 64 && rows > best.rows_per_group * 8 * cores) best.rows_per_group *= 4;
  return Space<Params>{}
      .axis("rows", &Params::rows_per_group, {1, 4, 16, 64})
      .require("the row fits the thread's scratch", [=](const Params&) { return bytes <= scratch; })
      .require("a group has no more rows than there are", [=](const Params& c) { return c.rows_per_group <= rows; })
      .prefer(best)
      .estimate([=](const Params& c) {
        const int64_t groups = ceil_div(rows, c.rows_per_group);
        return memory * static_cast<double>(ceil_div(groups, cores) * cores) / static_cast<double>(groups);
      });
}

Work Rotary::work(const Problem& p) {
  return {3.0 * static_cast<double>(p.rows) * static_cast<double>(p.turned), bytes_read(p.body), bytes_written(p.body)};
}

Tolerance Rotary::tolerance(const Problem&) { return {ToleranceClass::elementwise, 2}; }

Result<backend::KernelPlan> Rotary::emit(const Problem& p, const Params& params, const backend::Caps&, const codegen::Dialect& dialect) {
  if (!dialect.explicit_vectors) return emit_gpu(p, params, dialect);
  backend::KernelPlan plan;
  plan.name = fmt::format("rotary_{}_{}x{}{}", ir::name(p.dtype), p.rows, p.columns, p.interleaved ? "_interleaved" : "");
  plan.numerics_class = "rotary f32";
  const auto work = Rotary::work(p);
  codegen::Source source(dialect, plan.name, "kernels/rotary/emit.cpp", fmt::format("rows={}", params.rows_per_group),
                         work_text(work.flops, work.bytes()));
  if (p.rows * p.columns == 0) {
    plan.text = source.take();
    return plan;
  }
  source.include("codegen/row.inc.h");
  Arguments arguments;
  source.open(fmt::format("KERNEL({})", plan.name));
  std::map<const codegen::ElementDag*, std::map<int, std::string>> names;
  for (const auto* dag : {&p.turn, &p.rest, &p.low, &p.high, &p.behind}) names[dag] = arguments.bind(source, *dag);
  source.line("// The row: first columns of the pairs, their second columns, what passes.");
  source.line("f32* const row = static_cast<f32*>(scratch);");
  source.open("GROUP_LOOP(group)");
  source.line(fmt::format("const i64 first = group * {0}, last = first + {0} < {1} ? first + {0} : {1};", params.rows_per_group, p.rows));
  source.open("for (i64 r = first; r < last; ++r)");
  const int64_t half = p.turned / 2;
  const auto loop_over = [&](const codegen::ElementDag& dag, int64_t count) {
    codegen::RowLoop loop;
    loop.inner = 1;
    loop.outer = {{0, "r"}};
    loop.count = std::to_string(count);
    loop.vector_width = dialect.preferred_lanes_f32;
    loop.buffers = names[&dag];
    return loop;
  };
  const auto store_from = [&](const codegen::ElementDag& dag, int64_t count, int64_t offset) {
    auto loop = loop_over(dag, count);
    loop.leaf = [=](int, int width, const std::string& i) {
      return width == 1 ? fmt::format("row[{} + {}]", offset, i) : fmt::format("load<vec<f32, {}>>(row + {} + {})", width, offset, i);
    };
    codegen::print_row(source, dag, loop);
  };
  if (half > 0) {
    auto turn = loop_over(p.turn, half);
    turn.after = [&](codegen::Source& s, int width, const std::string& i, const auto& value) {
      const std::string lanes = width == 1 ? "f32" : fmt::format("vec<f32, {}>", width);
      const auto a = value(p.a), b = value(p.b), c = value(p.cosine), sine = value(p.sine);
      s.line(fmt::format("store(row + {}, {}({} * {} - {} * {}));", i, lanes, a, c, b, sine));
      s.line(fmt::format("store(row + {} + {}, {}({} * {} + {} * {}));", half, i, lanes, b, c, a, sine));
    };
    codegen::print_row(source, p.turn, turn);
    store_from(p.low, half, 0);
    store_from(p.high, half, half);
  }
  if (p.turned < p.columns) {
    auto rest = loop_over(p.rest, p.columns - p.turned);
    rest.after = [&](codegen::Source& s, int, const std::string& i, const auto& value) {
      s.line(fmt::format("store(row + {} + {}, {});", p.turned, i, value(p.passed)));
    };
    codegen::print_row(source, p.rest, rest);
    store_from(p.behind, p.columns - p.turned, p.turned);
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

}  // namespace rtx::kernels::rotary

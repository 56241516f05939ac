// Rotary on groups of many threads: a thread has some neighbouring pairs of a row, or some columns that pass, and keeps them in registers.
#include <fmt/core.h>

#include "kernels/anchored.h"
#include "kernels/rotary/rotary.h"

namespace rtx::kernels::rotary {

namespace {

constexpr int64_t kPairs = 4;  // of a thread

struct Region {
  int64_t columns = 0;  // pairs, or columns that pass
  int64_t steps() const { return columns / kPairs + columns % kPairs; }
};

}  // namespace

Result<backend::KernelPlan> emit_gpu(const Problem& p, const Params& params, const codegen::Dialect& dialect) {
  backend::KernelPlan plan;
  plan.name = fmt::format("rotary_{}_{}x{}{}", ir::name(p.dtype), p.rows, p.columns, p.interleaved ? "_interleaved" : "");
  plan.numerics_class = "rotary f32";
  const auto work = Rotary::work(p);
  codegen::Source source(dialect, plan.name, "kernels/rotary/emit_gpu.cpp", fmt::format("rows={} threads={}", params.rows_per_group, params.threads),
                         work_text(work.flops, work.bytes()));
  if (p.rows * p.columns == 0) {
    plan.text = source.take();
    return plan;
  }
  const Region pairs{p.turned / 2}, rest{p.columns - p.turned};
  const int64_t of_row = pairs.steps() + rest.steps(), steps = p.rows * of_row;
  Arguments arguments;
  source.open_kernel(plan.name, static_cast<int>(params.threads));
  std::map<const codegen::ElementDag*, std::map<int, std::string>> names;
  for (const auto* dag : {&p.turn, &p.rest, &p.low, &p.high, &p.behind}) names[dag] = arguments.bind(source, *dag);
  source.open("GROUP_LOOP(g)");
  source.line(fmt::format("const i64 step = g * {} + thread();", params.threads));
  source.open(fmt::format("if (step < {})", steps));
  source.line(fmt::format("const i64 r = step / {0}, place = step % {0};", of_row));

  const auto loop_at = [&](const codegen::ElementDag& dag, const std::string& at, int64_t width) {
    codegen::RowLoop loop;
    loop.inner = 1;
    loop.outer = {{0, "r"}};
    loop.at = at;
    loop.vector_width = static_cast<int>(width);
    loop.buffers = names[&dag];
    return loop;
  };
  const auto store_value = [&](codegen::Source& s, const codegen::ElementDag& dag, const std::string& at, int64_t width, const std::string& value) {
    auto loop = loop_at(dag, at, width);
    loop.leaf = [value](int, int, const std::string&) { return value; };
    s.open("");
    codegen::print_row(s, dag, loop);
    s.close();
  };
  const auto pair_body = [&](int64_t width) {
    auto turn = loop_at(p.turn, "i", width);
    turn.after = [&](codegen::Source& s, int w, const std::string& i, const auto& value) {
      const auto a = value(p.a), b = value(p.b), c = value(p.cosine), sine = value(p.sine);
      s.line(fmt::format("const {} low = {} * {} - {} * {}, high = {} * {} + {} * {};", codegen::lanes_text(ir::DType::f32, w), a, c, b, sine, b, c, a, sine));
      store_value(s, p.low, i, w, "low");
      store_value(s, p.high, i, w, "high");
    };
    codegen::print_row(source, p.turn, turn);
  };
  const auto rest_body = [&](int64_t width) {
    auto pass = loop_at(p.rest, "i", width);
    pass.after = [&](codegen::Source& s, int w, const std::string& i, const auto& value) { store_value(s, p.behind, i, w, value(p.passed)); };
    codegen::print_row(source, p.rest, pass);
  };
  // Vectors of the pairs, single pairs, vectors of the rest, single columns: in this order along `place`.
  struct Piece {
    int64_t count, width, first;
    bool turned;
  };
  const Piece pieces[] = {{pairs.columns / kPairs, kPairs, 0, true},
                          {pairs.columns % kPairs, 1, pairs.columns / kPairs * kPairs, true},
                          {rest.columns / kPairs, kPairs, 0, false},
                          {rest.columns % kPairs, 1, rest.columns / kPairs * kPairs, false}};
  int64_t begin = 0;
  for (const auto& piece : pieces) {
    if (piece.count == 0) continue;
    source.open(fmt::format("if (place >= {} && place < {})", begin, begin + piece.count));
    source.line(fmt::format("const i64 i = {} + (place - {}) * {};", piece.first, begin, piece.width));
    if (piece.turned) pair_body(piece.width);
    else rest_body(piece.width);
    source.close();
    begin += piece.count;
  }
  source.close();
  source.close();
  backend::Launch launch;
  launch.entry = plan.name;
  launch.grid.x = ceil_div(steps, params.threads);
  launch.group.x = params.threads;
  launch.arguments = arguments.list();
  source.close_kernel(static_cast<int64_t>(launch.arguments.size()));
  plan.text = source.take();
  plan.steps = {launch};
  return plan;
}

}  // namespace rtx::kernels::rotary

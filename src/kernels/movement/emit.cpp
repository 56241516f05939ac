#include <algorithm>

#include "codegen/print.h"
#include "kernels/movement/movement.h"

namespace rtx::kernels::movement {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Sums of halves are kept in f32 while the updates are applied and rounded once at the end: step 1 copies into a workspace.
bool widened(const Scatter& s) { return s.reduction != 0 && (s.dtype == ir::DType::f16 || s.dtype == ir::DType::bf16); }

Result<backend::KernelPlan> emit_scatter(const Problem& problem, const Params& params, const codegen::Dialect& dialect) {
  const Scatter& s = problem.scatter;
  using backend::BufferKind;
  backend::KernelPlan plan;
  plan.name = problem.name;
  plan.numerics_class = "updates in order of index";
  codegen::Source source(dialect, plan.name, "kernels/movement/emit.cpp", "elements_per_group=" + std::to_string(params.elements_per_group),
                         work_text(problem.work));
  source.include("kernels/movement/device.h");
  const std::string stored = s.dtype == ir::DType::boolean ? "u8" : codegen::type_text(s.dtype), sum = widened(s) ? "f32" : codegen::compute_text(s.dtype);
  const std::string kept = widened(s) ? "f32" : stored, index = codegen::type_text(s.index_dtype);
  const backend::BufferRef target = widened(s) ? backend::BufferRef{BufferKind::workspace, 0} : backend::BufferRef{BufferKind::output, 0};
  if (widened(s)) plan.workspace_bytes.push_back(s.elements * 4);
  // What a group has of `n` elements, or one thread of a group of many: [first, last).
  const bool many = !dialect.explicit_vectors;
  const int threads = static_cast<int>(params.threads);
  const auto own = [&](int64_t n, int64_t chunk) {
    const std::string size = std::to_string(n), c = std::to_string(chunk), each = std::to_string(threads);
    if (many) source.line("const i64 first = g * " + each + " + thread(), last = first < " + size + " ? first + 1 : first;");
    else source.line("const i64 first = g * " + c + ", last = first + " + c + " < " + size + " ? first + " + c + " : " + size + ";");
    return ceil_div(n, many ? threads : chunk);
  };
  const backend::Dim3 group{many ? threads : 1, 1, 1};
  const auto convert_step = [&](const std::string& suffix, const std::string& from, const std::string& to, backend::BufferRef in, backend::BufferRef out) {
    source.open_kernel(plan.name + suffix, threads);
    source.line("const " + from + "* const from = ARG(const " + from + ", 0);");
    source.line(to + "* const to = ARG(" + to + ", 1);");
    source.open("GROUP_LOOP(g)");
    const int64_t groups = own(s.elements, params.elements_per_group);
    if (from == to) source.line("__builtin_memcpy(to + first, from + first, (last - first) * sizeof(" + to + "));");
    else source.line("for (i64 k = first; k < last; ++k) store(to + k, load<f32>(from + k));");
    source.close();
    source.close_kernel(2);
    plan.steps.push_back({plan.name + suffix, {groups, 1, 1}, group, 0, {in, out}});
  };
  const BufferKind input = BufferKind::input;
  plan.begins_with_copy = s.elements > 0 && !widened(s);
  if (s.elements > 0) convert_step("_copy", stored, kept, {input, 0}, target);
  if (s.elements > 0 && s.updates > 0 && s.slice > 0) {
    // Columns a group owns: whole cache lines, few enough groups that each reads the indices cheaply.
    const int64_t columns = std::max<int64_t>(64, ceil_div(ceil_div(s.slice, 16), 64) * 64);
    // Updates are stored as `stored`; the target as `kept`.
    source.open_kernel(plan.name + "_update", threads);
    source.line("const " + index + "* const indices = ARG(const " + index + ", 0);");
    source.line("const " + stored + "* const updates = ARG(const " + stored + ", 1);");
    source.line(kept + "* const out = ARG(" + kept + ", 2);");
    source.open("GROUP_LOOP(g)");
    const int64_t groups = own(s.slice, columns);
    source.open("for (i64 u = 0; u < " + std::to_string(s.updates) + "; ++u)");
    source.line("i64 slice = 0;");
    source.line("bool inside = true;");
    for (size_t d = 0; d < s.indexed.size(); ++d) {
      const std::string n = std::to_string(s.indexed[d]), depth = std::to_string(s.indexed.size());
      const std::string at = "at" + std::to_string(d);
      source.line("i64 " + at + " = i64(indices[u * " + depth + " + " + std::to_string(d) + "]);");
      source.line("if (" + at + " < 0) " + at + " += " + n + ";");
      source.line("inside = inside && " + at + " >= 0 && " + at + " < " + n + ";");
      source.line("slice = slice * " + n + " + " + at + ";");
    }
    source.line("if (!inside) continue;");
    source.line("movement::update<" + std::to_string(s.reduction) + ", " + kept + ", " + stored + ", " + sum + ">(out + slice * " + std::to_string(s.slice) +
                ", updates + u * " + std::to_string(s.slice) + ", first, last);");
    source.close();
    source.close();
    source.close_kernel(3);
    plan.steps.push_back({plan.name + "_update", {groups, 1, 1}, group, 0, {{input, 1}, {input, 2}, target}});
  }
  if (widened(s) && s.elements > 0) convert_step("_round", "f32", stored, target, {BufferKind::output, 0});
  plan.text = source.take();
  return plan;
}

}  // namespace

std::string Family::key(const Problem& problem) { return "movement " + problem.name + "\n" + problem.scatter_text + problem.program.text(); }

Space<Params> Family::space(const Problem& problem, const backend::Caps& caps) {
  const double milliseconds = problem.work.bytes() / (caps.copy_gbps * 1e6);
  const auto cost = [=](const Params& p) { return nest_estimate(milliseconds, p); };
  if (!problem.scatter.present && !problem.cache_write.present) return nest_space(problem.program, caps).estimate(cost);
  Space<Params> space;
  Params best;
  if (caps.lanes_per_wave > 1) {
    best.threads = 256;
    best.elements_per_group = 0;
    return space.axis("threads", &Params::threads, {128, 256}).prefer(best).estimate(cost);
  }
  space.axis("elements_per_group", &Params::elements_per_group, {4096, 16384, 65536, 262144});
  return space.prefer(best).estimate(cost);
}

Result<backend::KernelPlan> Family::emit(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  if (problem.scatter.present) return emit_scatter(problem, params, dialect);
  if (problem.cache_write.present) return emit_cache_write(problem, params, dialect);
  return emit_program(problem.program, problem.name, "kernels/movement/emit.cpp", params, problem.work, caps, dialect);
}

}  // namespace rtx::kernels::movement

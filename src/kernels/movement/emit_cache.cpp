// tensor_scatter: rows written into a cache. The copy of the cache is a step of its own, which a state that
// is updated in place leaves out.
#include "codegen/print.h"
#include "kernels/movement/movement.h"

namespace rtx::kernels::movement {

namespace {

// The widest integer of which rows are whole multiples: data is moved as that, whatever it is.
int64_t unit_bytes(int64_t row_bytes) {
  int64_t unit = 8;
  while (row_bytes % unit != 0) unit /= 2;
  return unit;
}

}  // namespace

Result<backend::KernelPlan> emit_cache_write(const Problem& problem, const Params& params,
                                             const codegen::Dialect& dialect) {
  const CacheWrite& w = problem.cache_write;
  using backend::BufferKind;
  backend::KernelPlan plan;
  plan.name = problem.name;
  plan.numerics_class = "rows are moved";
  codegen::Source source(dialect, plan.name, "kernels/movement/emit_cache.cpp",
                         "elements_per_group=" + std::to_string(params.elements_per_group),
                         work_text(problem.work));
  const auto n = [](int64_t value) { return std::to_string(value); };
  const int64_t unit = w.dense ? unit_bytes(w.row_bytes) : w.element_bytes,
                width = w.row_bytes / unit;  // of a row, in units
  const std::string type = "u" + n(unit * 8);
  const bool many = !dialect.explicit_vectors;
  const int64_t each = many ? params.threads : params.elements_per_group;
  // One thread has one unit; a group of one thread has `each` of them in turn.
  const auto kernel = [&](const std::string& suffix, int64_t units, const std::vector<std::string>& body,
                          std::vector<backend::BufferRef> arguments) {
    if (units == 0) return;
    source.open_kernel(plan.name + suffix, static_cast<int>(params.threads));
    source.line("const " + type + "* const from = ARG(const " + type + ", 0);");
    source.line(type + "* const to = ARG(" + type + ", 1);");
    if (arguments.size() > 2) source.line("const i64* const start = ARG(const i64, 2);");
    source.open("GROUP_LOOP(g)");
    if (many)
      source.line("const i64 first = g * " + n(each) + " + thread(), last = first < " + n(units) +
                  " ? first + 1 : first;");
    else
      source.line("const i64 first = g * " + n(each) + ", last = first + " + n(each) + " < " + n(units) +
                  " ? first + " + n(each) + " : " + n(units) + ";");
    source.open("for (i64 k = first; k < last; ++k)");
    for (const auto& line : body) source.line(line);
    source.close();
    source.close();
    source.close_kernel(static_cast<int>(arguments.size()));
    const backend::Dim3 group{many ? static_cast<int64_t>(params.threads) : 1, 1, 1};
    plan.steps.push_back(
        {plan.name + suffix, {(units + each - 1) / each, 1, 1}, group, 0, std::move(arguments)});
  };
  const int64_t all = w.batch * w.outer * w.room * width;
  plan.begins_with_copy = all > 0;
  kernel("_copy", all, {"to[k] = from[k];"}, {{BufferKind::input, w.cache_input}, {BufferKind::output, 0}});
  const std::string place = w.dense ? "k"
                                    : w.fresh.text(
                                          [](int variable) {
                                            constexpr const char* names[] = {"b", "o", "s", "column"};
                                            return std::string(names[variable]);
                                          },
                                          [](int) { return std::string("0"); });
  std::vector<std::string> body{"const i64 row = k / " + n(width) + ", slice = row / " + n(w.rows) +
                                    ", b = slice / " + n(w.outer) + ";",
                                "i64 at = start[b] + row % " + n(w.rows) + ";"};
  if (!w.dense)
    body.push_back("[[maybe_unused]] const i64 o = slice % " + n(w.outer) + ", s = row % " + n(w.rows) +
                   ", column = k % " + n(width) + ";");
  if (w.circular) {
    body.push_back("at %= " + n(w.room) + ";");
    body.push_back("if (at < 0) at += " + n(w.room) + ";");
    body.push_back("to[(slice * " + n(w.room) + " + at) * " + n(width) + " + k % " + n(width) + "] = from[" +
                   place + "];");
  } else {
    body.push_back("if (at >= 0 && at < " + n(w.room) + ") to[(slice * " + n(w.room) + " + at) * " +
                   n(width) + " + k % " + n(width) + "] = from[" + place + "];");
  }
  kernel("_write", w.batch * w.outer * w.rows * width, body,
         {{BufferKind::input, w.fresh_input}, {BufferKind::output, 0}, {BufferKind::input, w.start_input}});
  plan.text = source.take();
  return plan;
}

}  // namespace rtx::kernels::movement

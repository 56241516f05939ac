#include <fmt/core.h>

#include "kernels/anchored.h"
#include "kernels/norm/norm.h"

namespace rtx::kernels::norm {

namespace {

// Whether elements of a row lie one behind the other, rows at one distance.
bool in_rows(const codegen::Index& offset) {
  bool of_elements = false;
  offset.walk([&](const codegen::Index& part) { of_elements = of_elements || part.kind() == codegen::Index::Kind::element; });
  int64_t row_step = 0, step = 0;
  return !of_elements && offset.affine_in(0, 1, &row_step) && row_step != 0 && offset.affine_in(1, 1, &step) && step == 1;
}

std::string address(const std::string& buffer, const codegen::Index& offset, const std::string& row, const std::string& column) {
  const auto name = [&](int id) { return id == 0 ? row : column; };
  return fmt::format("{} + {}", buffer, offset.text(name, [](int) { return std::string(); }));
}

// While one row is finished the inputs of a later one and the outputs of the next are brought near: loads would else wait with nothing
// to compute beside them, stores for the line that they are about to overwrite.
void prefetch(codegen::Source& source, const codegen::ElementDag& prologue, const std::map<int, std::string>& inputs, int rows_ahead,
              const codegen::ElementDag& epilogue, const std::map<int, std::string>& outputs, const std::string& i) {
  for (const auto& e : prologue.elements)
    if (e.kind == codegen::Element::Kind::load && e.guard < 0 && in_rows(e.offset))
      source.line(fmt::format("__builtin_prefetch({});", address(inputs.at(e.buffer), e.offset, fmt::format("(r + {})", rows_ahead), i)));
  for (const auto& store : epilogue.stores)
    if (in_rows(store.offset)) source.line(fmt::format("__builtin_prefetch({}, 1);", address(outputs.at(store.buffer), store.offset, "(r + 1)", i)));
}

// The prologue's only load, where x is an f32 row of an input as it lies there: it needs no buffer.
const codegen::Element* row_in_place(const Problem& p) {
  const auto& x = p.prologue.elements[static_cast<size_t>(p.x)];
  const bool plain = x.kind == codegen::Element::Kind::load && x.guard < 0 && p.prologue.stores.empty() &&
                     p.prologue.buffers[static_cast<size_t>(x.buffer)].dtype == ir::DType::f32 && in_rows(x.offset);
  return plain ? &x : nullptr;
}

}  // namespace

bool runs_ahead(const Problem& p) {
  return p.rows * p.columns > 0 && row_in_place(p) != nullptr && p.centred && p.statistics.stores.empty() && !p.epilogue.stores.empty();
}

Result<backend::KernelPlan> Norm::emit(const Problem& p, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  if (!dialect.explicit_vectors) return emit_gpu(p, params, caps, dialect);
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
  const auto* in_place = row_in_place(p);
  const auto row_of = [&](const char* r) { return address(prologue.buffers.at(in_place->buffer), in_place->offset, r, "0"); };
  // The next row is summed while this one is finished, a vector of each in turn: its loads and sums fill the gaps of the epilogue.
  const bool ahead = runs_ahead(p);
  const std::string epsilon = codegen::literal_text(ir::DType::f64, p.epsilon, 0);
  const auto centred_of = [&](const std::string& row) {
    return fmt::format("norm::{}({}, {}, {})", p.statistics.stores.empty() ? "centred" : "centred_carefully", row, p.columns, epsilon);
  };
  if (in_place == nullptr) source.line("f32* const row = static_cast<f32*>(scratch);");
  const auto range = [&](const std::string& first, const std::string& last) {
    const std::string end = fmt::format("{} * {}", last, params.rows_per_group);
    if (p.rows % params.rows_per_group == 0) source.line(fmt::format("const i64 last = {};", end));
    else source.line(fmt::format("const i64 last = {0} < {1} ? {0} : {1};", end, p.rows));
    source.line(fmt::format("i64 r = {} * {};", first, params.rows_per_group));
  };
  if (ahead) {
    source.open("if (group_begin < group_end)");
    range("group_begin", "group_end");
    source.line(fmt::format("norm::Centred next = {};", centred_of(row_of("r"))));
  } else {
    source.open("GROUP_LOOP(group)");
    range("group", "(group + 1)");
  }
  source.open("for (; r < last; ++r)");

  for (auto* loop : {&prologue, &statistics, &epilogue}) {
    loop->inner = 1;
    loop->outer = {{0, "r"}};
    loop->count = std::to_string(p.columns);
    loop->vector_width = dialect.preferred_lanes_f32;
    loop->unroll = static_cast<int>(params.unroll);
  }
  if (in_place != nullptr) {
    source.line(fmt::format("const f32* const row = {};", row_of("r")));
  } else {
    prologue.after = [&](codegen::Source& s, int, const std::string& i, const auto& value) {
      s.line(fmt::format("store(row + {}, {});", i, value(p.x)));
    };
    codegen::print_row(source, p.prologue, prologue);
  }
  if (p.centred) {
    source.line(fmt::format("const norm::Centred centred = {};", ahead ? "next" : centred_of("row")));
    source.line("const f32 shift = centred.shift, spread = centred.spread, offset = -(centred.rest * spread);");
    if (ahead) {
      source.line(fmt::format("const f32* const after = r + 1 < last ? {} : row;", row_of("(r + 1)")));
      source.line(fmt::format("norm::Sums sums = norm::begin(after, {});", p.columns));
    }
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
    constexpr int kChains = 4;  // norm::chains
    int step = 0;
    if (ahead && p.columns >= kChains * dialect.preferred_lanes_f32) epilogue.steps = kChains;
    epilogue.contract = true;
    epilogue.after = [&](codegen::Source& s, int width, const std::string& i, const auto&) {
      if (step < epilogue.steps && ahead && epilogue.steps > 1) s.line(fmt::format("norm::step(sums, after + {}, {});", i, step));
      if (width > 1 && (step * width) % 16 == 0) prefetch(s, p.prologue, prologue.buffers, ahead ? 2 : 1, p.epilogue, epilogue.buffers, i);
      ++step;
    };
    source.open("");
    codegen::print_row(source, p.epilogue, epilogue);
    source.close();
    if (ahead) source.line(fmt::format("next = norm::finish(sums, after, {}, {});", p.columns, epsilon));
  }
  source.close();
  source.close();
  source.close();

  plan.text = source.take();
  backend::Launch launch;
  launch.entry = plan.name;
  launch.grid.x = ceil_div(p.rows, params.rows_per_group);
  launch.scratch_bytes = in_place != nullptr ? 0 : p.columns * 4;
  launch.arguments = arguments.list();
  plan.steps = {launch};
  return plan;
}

}  // namespace rtx::kernels::norm

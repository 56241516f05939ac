// Reductions on groups of many threads, in two forms:
//
//   team     a team of threads has an output: they take turns along the reduced loops, and a fixed tree combines them
//   single   a thread has an output; neighbouring threads have neighbouring outputs. For kept axes that are contiguous, and short sums
//
// Either may be cut into `parts` of the outermost reduced loop, whose results go to a workspace; a second launch adds them in order.
#include <algorithm>

#include "codegen/nest.h"
#include "codegen/print.h"
#include "kernels/anchored.h"
#include "kernels/nests.h"
#include "kernels/reduce/arithmetic.h"
#include "kernels/teams.h"

namespace rtx::kernels::reduce {

using codegen::Source;

namespace {

constexpr int64_t kShortSum = 16;          // terms a thread adds alone even along contiguous memory
constexpr int64_t kLeastTermsOfPart = 2048;

bool single_form(const Problem& p) { return p.columns || p.terms <= kShortSum || p.reduced.empty(); }

class GpuEmitter : Arithmetic {
 public:
  GpuEmitter(Source& source, const Problem& p, const Params& params) : Arithmetic(p), source_(source), params_(params), team_(team_of(params.threads)) {
    parts_ = p.reduced.empty() ? 1 : std::min(params.parts, p.extent(p.reduced[0]));
    if (parts_ > 1) {
      part_size_ = ceil_div(p.extent(p.reduced[0]), parts_);
      parts_ = ceil_div(p.extent(p.reduced[0]), part_size_);
    }
  }
  int64_t parts() const { return parts_; }
  int64_t outputs_per_group() const { return single_form(p_) ? params_.threads : team_.rows(); }
  int64_t group_threads() const { return single_form(p_) ? params_.threads : team_.group; }
  int64_t groups() const { return ceil_div(p_.outputs, outputs_per_group()) * parts_; }
  int64_t combine_groups() const { return ceil_div(p_.outputs, group_threads()); }
  int64_t scratch_bytes() const { return single_form(p_) ? 0 : kPlacesBytes; }
  int64_t workspace_bytes() const { return p_.outputs * parts_ * ir::bytes_of(total_); }
  std::string partial_type() const { return codegen::type_text(total_); }

  void print(const std::map<int, std::string>& inputs, const std::map<int, std::string>& outputs) {
    const bool single = single_form(p_);
    if (!single) source_.line("constexpr int TEAM = " + number(team_.threads) + ";");
    source_.open("GROUP_LOOP(g)");
    std::string block = "g";
    if (parts_ > 1) {
      source_.line("const i64 part = g % " + number(parts_) + ", block = g / " + number(parts_) + ";");
      block = "block";
    }
    if (single) source_.line("const i64 o = " + block + " * " + number(params_.threads) + " + thread();");
    else source_.line("const i64 o = " + block + (team_.rows() > 1 ? " * " + number(team_.rows()) + " + wave();" : ";"));
    source_.open(p_.outputs % outputs_per_group() == 0 ? "" : "if (o < " + number(p_.outputs) + ")");
    codegen::print_coordinates(source_, p_.extents, p_.kept, "o", p_.outputs);
    bounds();
    const std::string one = codegen::type_text(lane_), wide = codegen::type_text(total_);
    source_.line(wide + " total = " + start(total_) + ";");
    source_.line(one + " sum = " + start(lane_) + ";");
    if (single) alone(inputs);
    else if (p_.extent(p_.reduced.back()) >= team_.threads) along_row(inputs);
    else over_all(inputs);
    source_.line("total = " + combined(total_, "total", wide + "(sum)", 1) + ";");
    if (!single) {
      const std::string f = p_.op == ir::Op::reduce_max ? "Greatest{}" : p_.op == ir::Op::reduce_min ? "Least{}" : "Sum{}";
      source_.line("total = team_reduce<TEAM>(total, " + f + ", scratch);");
      source_.open("if (team_lane<TEAM>() == 0)");
    }
    if (parts_ > 1) source_.line("partial[part * " + number(p_.outputs) + " + o] = total;");
    else epilogue(outputs);
    if (!single) source_.close();
    source_.close();
    source_.close();
  }

  void print_combine(const std::map<int, std::string>& outputs) {
    source_.open("GROUP_LOOP(g)");
    source_.line("const i64 o = g * " + number(group_threads()) + " + thread();");
    source_.open("if (o < " + number(p_.outputs) + ")");
    codegen::print_coordinates(source_, p_.extents, p_.kept, "o", p_.outputs);
    source_.line(codegen::type_text(total_) + " total = " + start(total_) + ";");
    source_.line("for (i64 part = 0; part < " + number(parts_) + "; ++part) total = " +
                 combined(total_, "total", "partial[part * " + number(p_.outputs) + " + o]", 1) + ";");
    epilogue(outputs);
    source_.close();
    source_.close();
  }

 private:
  void bounds() {
    first_ = "0";
    last_ = p_.reduced.empty() ? "1" : number(p_.extent(p_.reduced[0]));
    if (parts_ == 1) return;
    first_ = "part_first";
    source_.line("const i64 part_first = part * " + number(part_size_) + ";");
    const std::string end = "part_first + " + number(part_size_);
    source_.line("const i64 part_last = " + end + " < " + last_ + " ? " + end + " : " + last_ + ";");
    last_ = "part_last";
  }
  void open_loop(size_t k) {
    const std::string name = loop_name(p_.reduced[k]), from = k == 0 ? first_ : "0", to = k == 0 ? last_ : number(p_.extent(p_.reduced[k]));
    source_.open("for (i64 " + name + " = " + from + "; " + name + " < " + to + "; ++" + name + ")");
  }
  std::string converted(const std::string& x) const { return lane_ == p_.dtype ? x : "convert<" + codegen::type_text(lane_) + ">(" + x + ")"; }
  // f32 sums go into the f64 total now and then.
  bool flushes() const { return lane_ != total_; }
  void flush() {
    source_.line("total = " + combined(total_, "total", codegen::type_text(total_) + "(sum)", 1) + ";");
    source_.line("sum = " + start(lane_) + ";");
  }
  void print_term(int inner, const std::string& at, const std::map<int, std::string>& inputs) {
    codegen::RowLoop row;
    row.inner = inner;
    row.at = at;
    row.vector_width = 1;
    row.buffers = inputs;
    row.after = [&](Source& out, int, const std::string&, const auto& value) { out.line("sum = " + combined(lane_, "sum", converted(value(p_.x)), 1) + ";"); };
    codegen::print_row(source_, p_.prologue, row);
  }

  void alone(const std::map<int, std::string>& inputs) {
    const bool blocks = flushes() && p_.terms > kColumnBlock;
    if (blocks) source_.line("int added = 0;");
    for (size_t k = 0; k < p_.reduced.size(); ++k) open_loop(k);
    const int inner = p_.kept.empty() ? -1 : p_.kept.back();
    print_term(inner, inner < 0 ? "0" : loop_name(inner), inputs);
    if (blocks) {
      source_.open("if (++added == " + number(kColumnBlock) + ")");
      flush();
      source_.line("added = 0;");
      source_.close();
    }
    for (size_t k = 0; k < p_.reduced.size(); ++k) source_.close();
  }

  // The team takes vectors of the innermost reduced loop in turn.
  void along_row(const std::map<int, std::string>& inputs) {
    const size_t loops = p_.reduced.size();
    for (size_t k = 0; k + 1 < loops; ++k) open_loop(k);
    const bool cut = loops == 1 && parts_ > 1;
    const int64_t columns = p_.extent(p_.reduced.back());
    auto row = team_loop(team_, columns, cut ? 1 : std::min<int64_t>(params_.vector_width, row_vector(p_.prologue, columns)), inputs);
    row.outer.clear();
    row.inner = p_.reduced.back();
    if (cut) {
      row.begin = first_;
      row.begin_alignment = part_size_;
      row.count = "(" + last_ + " - " + first_ + ")";
    }
    row.after = [&](Source& out, int w, const std::string&, const auto& value) {
      const std::string x = converted(value(p_.x)), reduced = w == 1 ? x : std::string("math::reduce_") + word() + "(" + x + ")";
      out.line("sum = " + combined(lane_, "sum", reduced, 1) + ";");
    };
    codegen::print_row(source_, p_.prologue, row);
    if (flushes() && loops > 1) flush();
    for (size_t k = 0; k + 1 < loops; ++k) source_.close();
  }
  const char* word() const { return p_.op == ir::Op::reduce_max ? "max" : p_.op == ir::Op::reduce_min ? "min" : "sum"; }

  // The innermost loop is short: the team takes single elements of all reduced loops in turn.
  void over_all(const std::map<int, std::string>& inputs) {
    int64_t inside = 1;
    for (size_t k = 1; k < p_.reduced.size(); ++k) inside *= p_.extent(p_.reduced[k]);
    const std::string count = "(" + last_ + " - " + first_ + ") * " + number(inside);
    source_.open("for (i64 e = team_lane<TEAM>(); e < " + count + "; e += TEAM)");
    const std::vector<int> inner(p_.reduced.begin() + 1, p_.reduced.end());
    if (inner.empty()) {
      source_.line("const i64 " + loop_name(p_.reduced[0]) + " = " + first_ + " + e;");
    } else {
      source_.line("const i64 " + loop_name(p_.reduced[0]) + " = " + first_ + " + e / " + number(inside) + ", below = e % " + number(inside) + ";");
      codegen::print_coordinates(source_, p_.extents, inner, "below", inside);
    }
    print_term(p_.reduced.back(), loop_name(p_.reduced.back()), inputs);
    source_.close();
  }

  void epilogue(const std::map<int, std::string>& outputs) {
    codegen::RowLoop row;
    row.inner = p_.kept.empty() ? -1 : p_.kept.back();
    row.at = p_.kept.empty() ? "0" : loop_name(p_.kept.back());
    row.vector_width = 1;
    row.buffers = outputs;
    row.leaf = [&](int, int, const std::string&) { return finished("total", 1); };
    source_.open("");
    codegen::print_row(source_, p_.epilogue, row);
    source_.close();
  }

  Source& source_;
  const Params& params_;
  const Team team_;
  int64_t parts_ = 1, part_size_ = 0;
  std::string first_, last_;
};

}  // namespace

Space<Params> space_gpu(const Problem& p, const backend::Caps& caps) {
  const bool single = single_form(p);
  const int64_t cores = std::max(1, caps.cores), row = p.reduced.empty() ? 1 : p.extent(p.reduced.back());
  Params best;
  best.outputs_per_group = 0;
  best.vector_width = single ? 1 : row_vector(p.prologue, row);
  best.threads = single ? (p.outputs >= 256 * cores ? 128 : 32) : preferred_team(std::max(row, std::min<int64_t>(p.terms, 4096)), best.vector_width, p.outputs, caps);
  // Parts until every core has groups enough, as long as each has something to add.
  const int64_t groups = ceil_div(p.outputs, single ? best.threads : team_of(best.threads).rows());
  best.parts = 1;
  while (best.parts < 256 && groups * best.parts < 4 * cores && p.terms / (best.parts * 4) >= (single ? 64 : kLeastTermsOfPart)) best.parts *= 4;
  const int64_t parts = best.parts;
  return Space<Params>{}
      .axis("threads", &Params::threads, {32, 128, 256, 512, 1024})
      .axis("vector_width", &Params::vector_width, {best.vector_width})
      .axis("parts", &Params::parts, {1, 4, 16, 64, 256})
      .axis("outputs_per_group", &Params::outputs_per_group, {0})
      .require("a thread of its own needs no large group", [=](const Params& c) { return !single || c.threads <= 256; })
      .require("a team is no longer than the sum", [=, n = p.terms](const Params& c) { return single || c.threads == 32 || c.threads == best.threads || c.threads <= n; })
      .require("parts are for few outputs over much data", [=](const Params& c) { return (c.parts == 1) == (parts == 1); })
      .prefer(best);
}

Result<backend::KernelPlan> emit_gpu(const Problem& p, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  backend::KernelPlan plan;
  plan.name = p.name;
  Source source(dialect, plan.name, "kernels/reduce/emit_gpu.cpp", space_gpu(p, caps).text(params), work_text(p.work));
  if (p.outputs == 0) {
    plan.text = source.take();
    return plan;
  }
  GpuEmitter emitter(source, p, params);
  const bool two_steps = emitter.parts() > 1;
  plan.numerics_class = std::string(single_form(p) ? "single" : "team " + number(params.threads)) + ", parts " + number(emitter.parts());
  const auto kernel = [&](const std::string& suffix, bool first) {
    backend::Launch launch;
    launch.entry = plan.name + suffix;
    launch.grid.x = first ? emitter.groups() : emitter.combine_groups();
    launch.group.x = emitter.group_threads();
    launch.scratch_bytes = first ? emitter.scratch_bytes() : 0;
    source.open_kernel(launch.entry, static_cast<int>(emitter.group_threads()));
    Arguments arguments;
    std::map<int, std::string> inputs, outputs;
    if (first) inputs = arguments.bind(source, p.prologue);
    if (!first || !two_steps) outputs = arguments.bind(source, p.epilogue);
    launch.arguments = arguments.list();
    if (two_steps) {
      const std::string type = emitter.partial_type();
      source.line(type + "* const partial = ARG(" + type + ", " + number(static_cast<int64_t>(launch.arguments.size())) + ");");
      launch.arguments.push_back({backend::BufferKind::workspace, 0});
    }
    if (first) emitter.print(inputs, outputs);
    else emitter.print_combine(outputs);
    source.close_kernel(static_cast<int64_t>(launch.arguments.size()));
    plan.steps.push_back(std::move(launch));
  };
  kernel(two_steps ? "_parts" : "", true);
  if (two_steps) {
    kernel("_combine", false);
    plan.workspace_bytes.push_back(emitter.workspace_bytes());
  }
  plan.text = source.take();
  return plan;
}

}  // namespace rtx::kernels::reduce

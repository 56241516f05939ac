#include <algorithm>

#include "codegen/print.h"
#include "kernels/anchored.h"
#include "kernels/nests.h"
#include "kernels/reduce/arithmetic.h"

namespace rtx::kernels::reduce {

using codegen::Source;
using ir::DType;
using ir::Op;

namespace {

// Independent sums along a row: one would wait for its own latency.
int chains_of(const Problem& p, const Params& params) {
  return !p.columns && !p.reduced.empty() && p.extent(p.reduced.back()) >= 8 * params.vector_width ? 4 : 1;
}

class Emitter : Arithmetic {
 public:
  Emitter(Source& source, const Problem& p, const Params& params) : Arithmetic(p), source_(source), params_(params) {
    parts_ = p.reduced.empty() ? 1 : std::min(params.parts, p.extent(p.reduced[0]));
    if (parts_ > 1) {
      const int64_t n = p.extent(p.reduced[0]);
      part_size_ = ceil_div(n, parts_);
      if (p.reduced.size() == 1 && !p.columns) part_size_ = ceil_div(part_size_, 64) * 64;  // keeps vectors aligned to their parts
      parts_ = ceil_div(n, part_size_);
    }
  }

  int64_t parts() const { return parts_; }
  std::string partial_type() const { return codegen::type_text(total_); }
  int64_t workspace_bytes() const { return p_.outputs * parts_ * ir::bytes_of(total_); }
  int64_t strip() const { return std::min(params_.outputs_per_group, p_.extent(p_.kept.back())); }
  int64_t strips() const { return ceil_div(p_.extent(p_.kept.back()), strip()); }
  // Groups of the first launch and of the combining one.
  int64_t groups() const {
    if (!p_.columns) return ceil_div(p_.outputs, params_.outputs_per_group) * parts_;
    return p_.outputs / p_.extent(p_.kept.back()) * strips() * parts_;
  }
  int64_t combine_groups() const { return groups() / parts_; }
  int64_t scratch_bytes() const { return p_.columns ? 64 + strip() * (ir::bytes_of(lane_) + ir::bytes_of(total_)) : 0; }

  // Text of one group of the first launch; partial results go to `partial` when there are parts.
  void reduce_group(const std::map<int, std::string>& inputs, const std::map<int, std::string>& outputs) {
    if (p_.columns) columns_group(inputs, outputs);
    else rows_group(inputs, outputs);
  }
  void combine_group(const std::map<int, std::string>& outputs) {
    if (p_.columns) combine_columns(outputs);
    else combine_rows(outputs);
  }

 private:
  std::string across_lanes(const std::string& x) const {
    return std::string("math::reduce_") + (p_.op == Op::reduce_max ? "max" : p_.op == Op::reduce_min ? "min" : "sum") + "(" + x + ")";
  }
  void decode(const std::vector<int>& order, size_t count, std::string from) {
    int64_t below = 1;
    for (size_t k = count; k-- > 0;) {
      const std::string quotient = below == 1 ? from : from + " / " + number(below);
      source_.line("[[maybe_unused]] const i64 " + loop_name(order[k]) + " = " + (k == 0 ? quotient : "(" + quotient + ") % " + number(p_.extent(order[k]))) + ";");
      below *= p_.extent(order[k]);
    }
  }
  // First and one past the last value of the outermost reduced loop.
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
    const int v = p_.reduced[k];
    const std::string name = loop_name(v), from = k == 0 ? first_ : "0", to = k == 0 ? last_ : number(p_.extent(v));
    source_.open("for (i64 " + name + " = " + from + "; " + name + " < " + to + "; ++" + name + ")");
  }

  void print_epilogue(const std::map<int, std::string>& outputs, int inner, const std::string& begin, int64_t alignment, const std::string& count, int width,
                      const std::function<std::string(int, const std::string&)>& total) {
    codegen::RowLoop row;
    row.inner = inner;
    row.begin = begin;
    row.begin_alignment = alignment;
    row.count = count;
    row.vector_width = width;
    row.buffers = outputs;
    row.leaf = [&](int, int w, const std::string& i) { return finished(total(w, i), w); };
    codegen::print_row(source_, p_.epilogue, row);
  }

  // ---- rows: lanes along the reduced axis --------------------------------------------------------------------------------------
  void rows_group(const std::map<int, std::string>& inputs, const std::map<int, std::string>& outputs) {
    const std::string per_group = number(params_.outputs_per_group);
    if (parts_ > 1) source_.line("const i64 part = g % " + number(parts_) + ", block = g / " + number(parts_) + ";");
    const std::string block = parts_ > 1 ? "block" : "g";
    source_.open("for (i64 o = " + block + " * " + per_group + "; o < (" + block + " + 1) * " + per_group + " && o < " + number(p_.outputs) + "; ++o)");
    decode(p_.kept, p_.kept.size(), "o");
    bounds();
    const std::string total = codegen::type_text(total_);
    source_.line(total + " total = " + start(total_) + ";");
    reduce_row(inputs);
    if (parts_ > 1) {
      source_.line("partial[o * " + number(parts_) + " + part] = total;");
    } else {
      print_epilogue(outputs, -1, "0", 1, "1", 1, [](int, const std::string&) { return std::string("total"); });
    }
    source_.close();
  }

  void reduce_row(const std::map<int, std::string>& inputs) {
    const int width = p_.reduced.empty() ? 1 : static_cast<int>(params_.vector_width);
    const size_t loops = p_.reduced.size();
    // Loops inside level `flush` add at most kRowBlock elements before they are flushed.
    size_t flush = loops == 0 ? 0 : loops - 1;
    int64_t inside = loops == 0 ? 1 : p_.extent(p_.reduced[flush]);
    const bool segmented = inside > kRowBlock;
    while (!segmented && flush > 0 && inside * p_.extent(p_.reduced[flush - 1]) <= kRowBlock) inside *= p_.extent(p_.reduced[--flush]);
    for (size_t k = 0; k < flush; ++k) open_loop(k);
    const std::string lanes = codegen::lanes_text(lane_, width), one = codegen::type_text(lane_);
    std::string begin = "0", count = "1";
    const bool last_is_first = loops == 1;
    if (loops > 0) {
      begin = last_is_first ? first_ : "0";
      const std::string end = last_is_first ? last_ : number(p_.extent(p_.reduced.back()));
      count = begin == "0" ? end : "(" + end + " - " + begin + ")";
      if (segmented) {
        source_.open("for (i64 segment = " + begin + "; segment < " + end + "; segment += " + number(kRowBlock) + ")");
        source_.line("const i64 length = " + end + " - segment < " + number(kRowBlock) + " ? " + end + " - segment : " + number(kRowBlock) + ";");
        begin = "segment";
        count = "length";
      }
    }
    const int chains = width > 1 ? chains_of(p_, params_) : 1;
    for (int c = 0; width > 1 && c < chains; ++c) source_.line(lanes + " sum" + number(c) + " = splat<" + lanes + ">(" + start(lane_) + ");");
    source_.line(one + " rest_sum = " + start(lane_) + ";");
    for (size_t k = flush; k + 1 < loops; ++k) open_loop(k);
    codegen::RowLoop row;
    row.inner = loops == 0 ? -1 : p_.reduced.back();
    row.begin = begin;
    row.begin_alignment = 64;  // parts and segments are multiples of it
    row.count = count;
    row.vector_width = width;
    row.buffers = inputs;
    row.steps = chains;
    int called = 0;  // the steps of an iteration add into chains 0, 1, ...; single vectors into chain 0
    row.after = [&](Source& out, int w, const std::string&, const std::function<std::string(int)>& value) {
      std::string x = value(p_.x);
      if (lane_ != p_.dtype) x = "convert<" + one + ">(" + x + ")";
      const std::string to = w == 1 ? "rest_sum" : "sum" + number(called++ % chains);
      out.line(to + " = " + combined(lane_, to, x, w) + ";");
    };
    codegen::print_row(source_, p_.prologue, row);
    for (size_t k = flush; k + 1 < loops; ++k) source_.close();
    const std::string wide = codegen::type_text(total_);
    if (width > 1) {
      const std::string low = chains == 1 ? "sum0" : combined(lane_, "sum0", "sum1", width), high = combined(lane_, "sum2", "sum3", width);
      source_.line("const " + lanes + " lanes_sum = " + (chains == 1 ? low : p_.op == Op::reduce_max || p_.op == Op::reduce_min ? combined(lane_, low, high, width) : "(" + low + ") + (" + high + ")") + ";");
      source_.line("total = " + combined(total_, "total", wide + "(" + across_lanes("lanes_sum") + ")", 1) + ";");
    }
    source_.line("total = " + combined(total_, "total", wide + "(rest_sum)", 1) + ";");
    if (segmented) source_.close();
    for (size_t k = 0; k < flush; ++k) source_.close();
  }

  void combine_rows(const std::map<int, std::string>& outputs) {
    const std::string per_group = number(params_.outputs_per_group);
    source_.open("for (i64 o = g * " + per_group + "; o < (g + 1) * " + per_group + " && o < " + number(p_.outputs) + "; ++o)");
    decode(p_.kept, p_.kept.size(), "o");
    source_.line(codegen::type_text(total_) + " total = " + start(total_) + ";");
    source_.line("for (i64 part = 0; part < " + number(parts_) + "; ++part) total = " + combined(total_, "total", "partial[o * " + number(parts_) + " + part]", 1) + ";");
    print_epilogue(outputs, -1, "0", 1, "1", 1, [](int, const std::string&) { return std::string("total"); });
    source_.close();
  }

  // ---- columns: lanes are outputs ----------------------------------------------------------------------------------------------
  // Declares the strip: outer kept loops, first column, number of columns.
  void strip_of(const std::string& group) {
    const int lane = p_.kept.back();
    const int64_t n = p_.extent(lane);
    source_.line("const i64 strip = " + group + " % " + number(strips()) + ", outer = " + group + " / " + number(strips()) + ";");
    decode(p_.kept, p_.kept.size() - 1, "outer");
    source_.line("const i64 column = strip * " + number(strip()) + ";");
    source_.line("const i64 columns = " + number(n) + " - column < " + number(strip()) + " ? " + number(n) + " - column : " + number(strip()) + ";");
    const std::string total = codegen::type_text(total_), one = codegen::type_text(lane_);
    source_.line(total + "* const total = static_cast<" + total + "*>(scratch);");
    if (lane_ != total_) source_.line(one + "* const sums = reinterpret_cast<" + one + "*>(total + " + number(strip()) + ");");
  }
  int64_t alignment() const { return strips() == 1 ? 64 : strip(); }

  void columns_group(const std::map<int, std::string>& inputs, const std::map<int, std::string>& outputs) {
    if (parts_ > 1) source_.line("const i64 part = g % " + number(parts_) + ", place = g / " + number(parts_) + ";");
    strip_of(parts_ > 1 ? "place" : "g");
    bounds();
    const bool blocks = lane_ != total_;  // f32 sums, flushed into f64
    const std::string one = codegen::type_text(lane_), sums = blocks ? "sums" : "total";
    source_.line("for (i64 n = 0; n < columns; ++n) total[n] = " + start(total_) + ";");
    if (blocks) {
      source_.line("for (i64 n = 0; n < columns; ++n) sums[n] = " + start(lane_) + ";");
      source_.line("i64 rows_added = 0;");
    }
    for (size_t k = 0; k < p_.reduced.size(); ++k) open_loop(k);
    codegen::RowLoop row;
    row.inner = p_.kept.back();
    row.begin = "column";
    row.begin_alignment = alignment();
    row.count = "columns";
    row.vector_width = static_cast<int>(params_.vector_width);
    row.buffers = inputs;
    row.after = [&](Source& out, int w, const std::string& i, const std::function<std::string(int)>& value) {
      std::string x = value(p_.x);
      if (lane_ != p_.dtype) x = "convert<" + one + ">(" + x + ")";
      const std::string lanes = w == 1 ? one : "vec<" + one + ", " + number(w) + ">";
      out.line("store(" + sums + " + " + i + ", " + combined(lane_, "load<" + lanes + ">(" + sums + " + " + i + ")", x, w) + ");");
    };
    codegen::print_row(source_, p_.prologue, row);
    if (blocks) {
      source_.open("if (++rows_added == " + number(kColumnBlock) + ")");
      flush();
      source_.line("rows_added = 0;");
      source_.close();
    }
    for (size_t k = 0; k < p_.reduced.size(); ++k) source_.close();
    if (blocks) flush();
    if (parts_ > 1) {
      source_.line("for (i64 n = 0; n < columns; ++n) partial[(outer * " + number(parts_) + " + part) * " + number(p_.extent(p_.kept.back())) + " + column + n] = total[n];");
    } else {
      columns_epilogue(outputs);
    }
  }
  void flush() { source_.line("for (i64 n = 0; n < columns; ++n) { total[n] += sums[n]; sums[n] = 0; }"); }

  void columns_epilogue(const std::map<int, std::string>& outputs) {
    print_epilogue(outputs, p_.kept.back(), "column", alignment(), "columns", static_cast<int>(params_.vector_width),
                   [&](int w, const std::string& i) { return "load<" + codegen::lanes_text(total_, w) + ">(total + " + i + ")"; });
  }

  void combine_columns(const std::map<int, std::string>& outputs) {
    strip_of("g");
    source_.line("for (i64 n = 0; n < columns; ++n) total[n] = " + start(total_) + ";");
    source_.open("for (i64 part = 0; part < " + number(parts_) + "; ++part)");
    const std::string from = "partial[(outer * " + number(parts_) + " + part) * " + number(p_.extent(p_.kept.back())) + " + column + n]";
    source_.line("for (i64 n = 0; n < columns; ++n) total[n] = " + combined(total_, "total[n]", from, 1) + ";");
    source_.close();
    columns_epilogue(outputs);
  }

  Source& source_;
  const Params& params_;
  int64_t parts_ = 1, part_size_ = 0;
  std::string first_, last_;
};

}  // namespace

Result<backend::KernelPlan> Family::emit(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  if (!dialect.explicit_vectors) return emit_gpu(problem, params, caps, dialect);
  backend::KernelPlan plan;
  plan.name = problem.name;
  plan.numerics_class = "lanes " + number(problem.columns ? 1 : params.vector_width) + " x " + number(chains_of(problem, params)) + ", parts " + number(params.parts);
  Source source(dialect, plan.name, "kernels/reduce/emit.cpp", space(problem, caps).text(params), work_text(problem.work));
  if (problem.outputs == 0) {
    plan.text = source.take();
    return plan;
  }
  Emitter emitter(source, problem, params);
  const bool two_steps = emitter.parts() > 1;
  const auto kernel = [&](const std::string& suffix, bool first) {
    backend::Launch launch;
    launch.entry = plan.name + suffix;
    launch.grid.x = first ? emitter.groups() : emitter.combine_groups();
    launch.scratch_bytes = emitter.scratch_bytes();
    source.open("KERNEL(" + launch.entry + ")");
    Arguments arguments;
    std::map<int, std::string> inputs, outputs;
    if (first) inputs = arguments.bind(source, problem.prologue);
    if (!first || !two_steps) outputs = arguments.bind(source, problem.epilogue);
    launch.arguments = arguments.list();
    if (two_steps) {
      const std::string type = emitter.partial_type();
      source.line(type + "* const partial = ARG(" + type + ", " + number(static_cast<int64_t>(launch.arguments.size())) + ");");
      launch.arguments.push_back({backend::BufferKind::workspace, 0});
    }
    source.open("GROUP_LOOP(g)");
    if (first) emitter.reduce_group(inputs, outputs);
    else emitter.combine_group(outputs);
    source.close();
    source.close();
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

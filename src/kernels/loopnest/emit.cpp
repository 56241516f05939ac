#include <algorithm>
#include <cstdio>

#include "codegen/lower.h"
#include "codegen/print.h"
#include "kernels/loopnest/loopnest.h"
#include "kernels/nests.h"

namespace rtx::kernels::loopnest {

using codegen::Index;
using ir::DType;
using ir::Op;

namespace {

using Coordinates = std::vector<Index>;

// Names of the emitted loop variables, by Index variable.
enum Variable { row, first, second };
std::string variable_name(int id) { return id == row ? "row" : id == first ? "i" : "j"; }

std::string real_text(double x) { return codegen::literal_text(DType::f64, x, 0); }

class Emitter {
 public:
  Emitter(codegen::Source& source, const Problem& problem) : source_(source), body_(problem.body), node_(problem.body.nodes[0]) {
    rows_ = Index::variable(row, std::max<int64_t>(problem.rows, 1));
  }

  // The text of the row `row`, inside the loop over rows.
  void print() {
    switch (node_.op) {
      case Op::matmul: return matmul();
      case Op::softmax:
      case Op::log_softmax: return softmax();
      case Op::layer_norm:
      case Op::rms_norm: return norm();
      case Op::rotary: return rotary();
      case Op::attention: return attention();
      default: return reduce();
    }
  }
  int64_t scratch_bytes() const {
    if (node_.op != Op::attention) return 0;
    return 8 * (body_.extents(node_.inputs[1])[2] + body_.extents(node_.inputs[2])[3]);
  }

 private:
  std::vector<int64_t> extents(size_t input) const { return body_.extents(node_.inputs[input]); }
  bool has(size_t input) const { return input < node_.inputs.size() && node_.inputs[input] != ir::kNoValue; }
  static std::string sum_type(DType dtype) {
    if (ir::is_floating(dtype)) return "f64";
    return ir::info(dtype).kind == ir::DTypeKind::signed_integer ? "i64" : "u64";
  }

  std::string offset(ir::ValueId id, const Coordinates& at) const {
    const auto& value = body_.value(id);
    return ravel(at, codegen::strides_of(value), value.layout.offset).text(variable_name, [](int) { return std::string(); });
  }
  // Text that reads input `input` at coordinates.
  std::string read(size_t input, const Coordinates& at) const {
    const ir::ValueId id = node_.inputs[input];
    const auto& value = body_.value(id);
    const std::string type = sum_type(value.dtype);
    if (value.constant)
      return type + "(" + codegen::literal_text(value.dtype, value.constant->get_double(0), ir::is_floating(value.dtype) ? 0 : value.constant->get_int(0)) + ")";
    const auto position = std::find(body_.inputs.begin(), body_.inputs.end(), id) - body_.inputs.begin();
    return "load<" + type + ">(x" + std::to_string(position) + " + " + offset(id, at) + ")";
  }
  std::string write(size_t output, const Coordinates& at, const std::string& x) const {
    const auto position = std::find(body_.outputs.begin(), body_.outputs.end(), node_.outputs[output]) - body_.outputs.begin();
    return "store(y" + std::to_string(position) + " + " + offset(node_.outputs[output], at) + ", " + x + ");";
  }
  bool written(size_t output) const {
    return output < node_.outputs.size() && std::find(body_.outputs.begin(), body_.outputs.end(), node_.outputs[output]) != body_.outputs.end();
  }
  void reader(const std::string& name, const std::string& parameters, const std::string& text) {
    source_.line("const auto " + name + " = [&](" + parameters + ") { return " + text + "; };");
  }
  void writer(const std::string& name, const std::string& parameters, const std::string& text) {
    source_.line("const auto " + name + " = [&](" + parameters + ") { " + text + " };");
  }
  // Coordinates of an operand broadcast against `result`.
  Coordinates narrowed(const Coordinates& result, const std::vector<int64_t>& from) const {
    Coordinates out;
    for (size_t d = 0; d < from.size(); ++d) out.push_back(from[d] == 1 ? Index(0) : result[result.size() - from.size() + d]);
    return out;
  }

  void matmul() {
    const auto a = extents(0), b = extents(1), c = body_.extents(node_.outputs[0]);
    const bool trans_a = node_.attributes.integer("trans_a") != 0, trans_b = node_.attributes.integer("trans_b") != 0;
    const int64_t depth = a[a.size() - (trans_a ? 2 : 1)], columns = c.back();
    const std::vector<int64_t> outer(c.begin(), c.end() - 1);
    const Coordinates at = unravel(rows_, outer), batch(at.begin(), at.end() - 1);
    const Index m = at.back(), i = Index::variable(first, depth), j = Index::variable(second, columns);
    const auto operand = [&](const std::vector<int64_t>& e, Index r, Index k, bool swap) {
      Coordinates out = narrowed(batch, {e.begin(), e.end() - 2});
      if (swap) std::swap(r, k);
      out.push_back(r);
      out.push_back(k);
      return out;
    };
    const Coordinates at_b = operand(b, i, j, trans_b);
    const std::string type = sum_type(body_.value(node_.inputs[0]).dtype);
    reader("a", "[[maybe_unused]] i64 i", read(0, operand(a, m, i, trans_a)));
    reader("b", "[[maybe_unused]] i64 i, [[maybe_unused]] i64 j", read(1, at_b));
    Coordinates to = at;
    to.push_back(j);
    writer("c", "[[maybe_unused]] i64 j, " + type + " x", write(0, to, "x"));
    int64_t along_depth = 0;
    const auto& value = body_.value(node_.inputs[1]);
    const bool dots = !source_.explicit_vectors() || (columns > 1 && ravel(at_b, codegen::strides_of(value)).affine_in(first, 1, &along_depth) && along_depth == 1);
    source_.line(std::string("loopnest::matmul_row") + (dots ? "_dots" : "") + "<" + type + ">(" + std::to_string(columns) + ", " + std::to_string(depth) + ", a, b, c);");
  }

  void softmax() {
    const auto e = extents(0);
    const auto axis = static_cast<size_t>(node_.attributes.integer("axis"));
    auto others = e;
    others[axis] = 1;
    Coordinates at = unravel(rows_, others);
    at[axis] = Index::variable(first, e[axis]);
    reader("x", "[[maybe_unused]] i64 i", read(0, at));
    writer("y", "[[maybe_unused]] i64 i, f64 x", write(0, at, "x"));
    source_.line("loopnest::softmax_row(" + std::to_string(e[axis]) + ", " + (node_.op == Op::log_softmax ? "true" : "false") + ", x, y);");
  }

  void norm() {
    const auto e = extents(0);
    const auto axis = static_cast<std::ptrdiff_t>(node_.attributes.integer("axis"));
    const std::vector<int64_t> outer(e.begin(), e.begin() + axis), trailing(e.begin() + axis, e.end());
    const int64_t count = ir::element_count(trailing);
    Coordinates at = unravel(rows_, outer);
    const Coordinates inner = unravel(Index::variable(first, count), trailing);
    Coordinates statistics = at;
    statistics.resize(e.size(), Index(0));
    at.insert(at.end(), inner.begin(), inner.end());
    reader("x", "[[maybe_unused]] i64 i", read(0, at));
    std::string y = "n";
    if (has(1)) y += " * " + read(1, narrowed(inner, extents(1)));
    if (has(2)) y += " + " + read(2, narrowed(inner, extents(2)));
    writer("y", "[[maybe_unused]] i64 i, [[maybe_unused]] f64 n", written(0) ? write(0, at, y) : "");
    std::string keep;
    if (written(1)) keep += write(1, statistics, "mean");
    if (written(2)) keep += " " + write(2, statistics, "inverse");
    writer("s", "[[maybe_unused]] f64 mean, [[maybe_unused]] f64 inverse", keep);
    source_.line("loopnest::norm_row(" + std::to_string(count) + ", " + (node_.op == Op::layer_norm ? "true" : "false") + ", " +
                 real_text(node_.attributes.real("epsilon", 1e-5)) + ", x, y, s);");
  }

  void reduce() {
    const auto e = extents(0);
    const auto axes = node_.attributes.integers("axes");
    auto kept = e;
    std::vector<int64_t> reduced(e.size(), 1);
    for (const int64_t axis : axes) {
      kept[static_cast<size_t>(axis)] = 1;
      reduced[static_cast<size_t>(axis)] = e[static_cast<size_t>(axis)];
    }
    const int64_t count = ir::element_count(reduced);
    const Coordinates outer = unravel(rows_, kept), inner = unravel(Index::variable(first, count), reduced);
    Coordinates at(e.size()), to;
    for (size_t d = 0; d < e.size(); ++d) {
      const bool gone = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
      at[d] = gone ? inner[d] : outer[d];
      if (!gone || node_.attributes.integer("keepdims") != 0) to.push_back(gone ? Index(0) : outer[d]);
    }
    const DType dtype = body_.value(node_.inputs[0]).dtype;
    const std::string type = sum_type(dtype);
    std::string start = "0";
    const bool highest = node_.op == Op::reduce_max;
    if (highest || node_.op == Op::reduce_min) {
      const auto& info = ir::info(dtype);
      const std::string stored = codegen::type_text(dtype);
      if (info.kind == ir::DTypeKind::floating) start = highest ? "-__builtin_inf()" : "__builtin_inf()";
      else if (info.kind == ir::DTypeKind::boolean) start = highest ? "0" : "1";
      else if (info.kind == ir::DTypeKind::unsigned_integer) start = highest ? "0" : stored + "(-1)";
      else start = (highest ? stored + "(u64(1) << " : stored + "(~(u64(1) << ") + std::to_string(info.bits - 1) + (highest ? ")" : "))");
    }
    reader("x", "[[maybe_unused]] i64 i", read(0, at));
    source_.line("const " + type + " r = loopnest::reduce_row<" + type + ", " + std::to_string(static_cast<int>(node_.op) - static_cast<int>(Op::reduce_sum)) +
                 ">(" + std::to_string(count) + ", " + type + "(" + start + "), x);");
    source_.line(write(0, to, "r"));
  }

  void rotary() {
    const auto e = extents(0);
    const Coordinates at = unravel(rows_, {e[0], e[1], e[2]});
    const int64_t width = node_.attributes.integer("rotary_dim"), half = width / 2;
    const bool interleaved = node_.attributes.integer("interleaved") != 0;
    const Index pair = Index::variable(first, half);
    const auto with = [&](const Index& column) { return Coordinates{at[0], at[1], at[2], column}; };
    const auto table = [&](size_t input) { return Coordinates{extents(input)[0] == 1 ? Index(0) : at[0], at[2], pair}; };
    const Coordinates low = with(interleaved ? pair * 2 : pair), high = with(interleaved ? pair * 2 + Index(1) : pair + Index(half));
    if (half > 0) {
      source_.open("for (i64 i = 0; i < " + std::to_string(half) + "; ++i)");
      source_.line("const f64 a = " + read(0, low) + ", b = " + read(0, high) + ";");
      source_.line("const f64 c = " + read(1, table(1)) + ", s = " + read(2, table(2)) + ";");
      source_.line(write(0, low, "a * c - b * s"));
      source_.line(write(0, high, "b * c + a * s"));
      source_.close();
    }
    if (width < e[3]) {
      const Coordinates rest = with(Index::variable(first, e[3] - width) + Index(width));
      source_.line("for (i64 i = 0; i < " + std::to_string(e[3] - width) + "; ++i) " + write(0, rest, read(0, rest)));
    }
  }

  void attention() {
    const auto q = extents(0), k = extents(1), v = extents(2);
    const auto& attributes = node_.attributes;
    const int64_t depth = q[3], keys = k[2], width = v[3];
    const Coordinates at = unravel(rows_, {q[0], q[1], q[2]});
    const Index head = k[1] > 0 ? at[1] / std::max<int64_t>(q[1] / k[1], 1) : Index(0);
    const Index j = Index::variable(second, keys), d = Index::variable(first, depth), w = Index::variable(first, width);
    source_.line(std::string("f64* const scores = static_cast<f64*>(") + (source_.explicit_vectors() ? "scratch" : "buffer") + ");");
    source_.line("f64* const sums = scores + " + std::to_string(keys) + ";");
    source_.open("const auto score = [&]([[maybe_unused]] i64 j) -> f64");
    const std::string masked = "return -__builtin_inf();";
    const std::string query = at[2].text(variable_name, [](int) { return std::string(); });
    if (has(4)) source_.line("if (j >= i64(" + read(4, {at[0]}) + ")) " + masked);
    const int64_t left = attributes.integer("window_left", -1), right = attributes.integer("window_right", -1);
    const bool causal = attributes.integer("causal") != 0;
    if (causal || left >= 0 || right >= 0) {
      // Beyond any position an offset means always or never, and cannot overflow.
      const int64_t limit = int64_t{1} << 61, shift = std::clamp(attributes.integer("causal_offset"), -limit, limit);
      source_.line("const i64 distance = j - (" + query + ") - i64(" + std::to_string(shift) + ");");
      if (causal) source_.line("if (distance > 0) " + masked);
      if (left >= 0) source_.line("if (distance < -i64(" + std::to_string(std::min(left, limit * 2)) + ")) " + masked);
      if (right >= 0) source_.line("if (distance > i64(" + std::to_string(std::min(right, limit * 2)) + ")) " + masked);
    }
    if (has(3) && !ir::is_floating(body_.value(node_.inputs[3]).dtype))
      source_.line("if (" + read(3, narrowed({at[0], at[1], at[2], j}, extents(3))) + " == 0) " + masked);
    const std::string each = "for (i64 i = 0; i < " + std::to_string(depth) + "; ++i) ", term = read(0, {at[0], at[1], at[2], d}) + " * " + read(1, {at[0], head, j, d}) + ";";
    const std::string scale = " * " + real_text(attributes.real("scale", 1)) + ";";
    if (source_.explicit_vectors()) {
      source_.line("f64 part[4] = {};");
      source_.line(each + "part[i % 4] += " + term);
      source_.line("f64 s = ((part[0] + part[1]) + (part[2] + part[3]))" + scale);
    } else {  // an array with a running place would lie in memory
      source_.line("f64 s = 0;");
      source_.line(each + "s += " + term);
      source_.line("s = s" + scale);
    }
    if (const double cap = attributes.real("softcap"); cap > 0) source_.line("s = " + real_text(cap) + " * math::tanh(f64(s / " + real_text(cap) + "));");
    if (has(3) && ir::is_floating(body_.value(node_.inputs[3]).dtype)) source_.line("s += " + read(3, narrowed({at[0], at[1], at[2], j}, extents(3))) + ";");
    source_.line("return s;");
    source_.close(";");
    reader("v", "[[maybe_unused]] i64 j, [[maybe_unused]] i64 i", read(2, {at[0], head, j, w}));
    writer("y", "[[maybe_unused]] i64 i, f64 x", write(0, {at[0], at[1], at[2], w}, "x"));
    source_.line("loopnest::attention_row(" + std::to_string(keys) + ", " + std::to_string(width) + ", " +
                 (attributes.integer("empty_row_nan") != 0 ? "__builtin_nan(\"\")" : "0.0") + ", scores, sums, score, v, y);");
  }

  codegen::Source& source_;
  const ir::Graph& body_;
  const ir::Node& node_;
  Index rows_;
};

}  // namespace

Result<backend::KernelPlan> Family::emit(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  backend::KernelPlan plan;
  plan.name = problem.name;
  plan.numerics_class = "f64 along the row";
  codegen::Source source(dialect, plan.name, "kernels/loopnest/emit.cpp", space(problem, caps).text(params), work_text(problem.work));
  source.include("kernels/loopnest/device.h");
  backend::Launch launch;
  launch.entry = plan.name;
  const int64_t per_group = params.rows_per_group;
  launch.grid.x = (problem.rows + per_group - 1) / per_group;
  const bool many = !dialect.explicit_vectors;
  source.open_kernel(plan.name, static_cast<int>(params.threads));
  const auto pointer = [&](ir::ValueId id, const std::string& name, const std::string& qualifier, backend::BufferKind kind, size_t position) {
    const std::string type = qualifier + codegen::type_text(problem.body.value(id).dtype);
    source.line("[[maybe_unused]] " + type + "* const " + name + std::to_string(position) + " = ARG(" + type + ", " + std::to_string(launch.arguments.size()) + ");");
    launch.arguments.push_back({kind, static_cast<int>(position)});
  };
  for (size_t k = 0; k < problem.body.inputs.size(); ++k) pointer(problem.body.inputs[k], "x", "const ", backend::BufferKind::input, k);
  for (size_t k = 0; k < problem.body.outputs.size(); ++k) pointer(problem.body.outputs[k], "y", "", backend::BufferKind::output, k);
  Emitter emitter(source, problem);
  launch.scratch_bytes = emitter.scratch_bytes();
  if (many) {
    launch.group.x = params.threads;
    if (launch.scratch_bytes > 0) {  // a row's buffer is longer than a group's memory may be: every thread has a piece of a workspace
      plan.workspace_bytes.push_back(launch.grid.x * params.threads * launch.scratch_bytes);
      source.line("u8* const buffers = ARG(u8, " + std::to_string(launch.arguments.size()) + ");");
      launch.arguments.push_back({backend::BufferKind::workspace, 0});
    }
  }
  const std::string rows = std::to_string(problem.rows), step = std::to_string(per_group);
  source.open("GROUP_LOOP(g)");
  if (many) {
    const std::string threads = std::to_string(params.threads);
    if (launch.scratch_bytes > 0) source.line("void* const buffer = buffers + (g * " + threads + " + thread()) * " + std::to_string(launch.scratch_bytes) + ";");
    source.open("for (i64 row = g * " + std::to_string(per_group) + " + thread(); row < (g + 1) * " + step + " && row < " + rows + "; row += " + threads + ")");
    launch.scratch_bytes = 0;
  } else source.open("for (i64 row = g * " + step + "; row < (g + 1) * " + step + " && row < " + rows + "; ++row)");
  emitter.print();
  source.close();
  source.close();
  source.close_kernel(static_cast<int64_t>(launch.arguments.size()));
  plan.text = source.take();
  if (launch.grid.x > 0) plan.steps.push_back(std::move(launch));
  return plan;
}

}  // namespace rtx::kernels::loopnest

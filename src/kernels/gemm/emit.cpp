// The kernel's text: the device header, the problem as a struct of constants, the epilogue as one printed row, two thin entries.
#include "codegen/print.h"
#include "codegen/source.h"
#include "kernels/gemm/gemm.h"

namespace rtx::kernels::gemm {
namespace {

using backend::BufferKind;
using backend::BufferRef;
using codegen::Source;

std::string number(int64_t value) { return std::to_string(value); }

std::string offset_text(const codegen::Index& index) {
  return index.text([](int) { return std::string("batch"); }, [](int) { return std::string("0"); });
}

void print_shape(Source& s, const Problem& p, const Params& x, const Tiling& t) {
  static const char* const kSources[] = {"panels", "rows", "task", "rows"};
  s.open("struct Shape");
  s.line("using A = " + codegen::type_text(p.a.dtype) + ";");
  s.line("using B = " + codegen::type_text(p.b.dtype) + ";");
  s.line("using T = " + codegen::type_text(p.arithmetic) + ";");
  s.line("using Panel = " + codegen::type_text(t.panel_dtype) + ";");
  s.line("static constexpr i64 M = " + number(p.m) + ", N = " + number(p.n) + ", K = " + number(p.k) + ";");
  s.line("static constexpr i64 a_row = " + number(p.a.row_stride) + ", a_col = " + number(p.a.column_stride) + ", b_row = " +
         number(p.b.row_stride) + ", b_col = " + number(p.b.column_stride) + ";");
  s.line("static constexpr int MR = " + number(x.mr) + ", NRV = " + number(x.vectors) + ", LANES = " + number(t.lanes) + ";");
  s.line("static constexpr i64 MC = " + number(t.mc) + ", NC = " + number(t.nc) + ", KC = " + number(x.kc) + ";");
  s.line("static constexpr bool pack_a = " + std::string(x.pack_a ? "true" : "false") + ";");
  s.line("static constexpr gemm::BSource b_source = gemm::BSource::" + std::string(kSources[x.b_source]) + ";");
  s.line("DEVICE static i64 a_offset([[maybe_unused]] i64 batch) { return " + offset_text(p.a.offset) + "; }");
  s.line("DEVICE static i64 b_offset([[maybe_unused]] i64 batch) { return " + offset_text(p.b.offset) + "; }");
  s.line("DEVICE static i64 b_panels([[maybe_unused]] i64 batch) { return " + offset_text(p.b_matrix) + "; }");
  s.close(";");
  s.line();
}

void print_epilogue(Source& s, const Problem& p, const Tiling& t) {
  const auto& buffers = p.epilogue.buffers;
  const std::string type = codegen::type_text(p.arithmetic);
  s.open("struct Epilogue");
  for (size_t i = 0; i < buffers.size(); ++i)
    s.line((buffers[i].output ? "" : "const ") + codegen::type_text(buffers[i].dtype) + "* b" + number(int64_t(i)) + ";");
  s.open("DEVICE void row([[maybe_unused]] const " + type + "* acc, [[maybe_unused]] i64 batch, [[maybe_unused]] i64 m, [[maybe_unused]] i64 n, i64 count) const");
  codegen::RowLoop loop;
  loop.inner = Problem::n_variable;
  loop.begin = "n";
  loop.count = "count";
  loop.begin_alignment = p.in_turn ? t.nr / 2 : t.nr;
  loop.vector_width = int(p.in_turn ? std::min<int64_t>(t.lanes, 8) : t.lanes);
  loop.outer = {{Problem::batch_variable, "batch"}, {Problem::m_variable, "m"}};
  loop.leaf = [type, &p](int which, int width, const std::string& i) {
    return "load<vec<" + type + ", " + std::to_string(width) + ">>(acc + " + (p.in_turn ? "gemm::in_turn(" + i + ", " + number(which) + ")" : i) + ")";
  };
  if (p.in_turn) s.line("n /= 2, count /= 2;");
  codegen::print_row(s, p.epilogue, loop);
  s.close();
  s.close(";");
  s.line();
}

}  // namespace

std::string name_of(const Problem& p) {
  std::string name = "gemm_" + std::string(ir::name(p.a.dtype)) + "_" + (p.batches > 1 ? number(p.batches) + "x" : "") + number(p.m) + "x" +
                     number(p.n) + "x" + number(p.k);
  int shown = 0;
  for (const auto& element : p.epilogue.elements)
    if (element.kind == codegen::Element::Kind::op && shown++ < 4) name += "_" + std::string(ir::name(element.op));
  return name;
}

std::string work_text(const Problem& p) {
  const Work work = Family::work(p);
  return number(int64_t(work.flops / 1e6)) + " Mflop, " + number(int64_t(work.bytes() / 1e3)) + " kB";
}

Result<backend::KernelPlan> Family::emit(const Problem& p, const Params& x, const backend::Caps& caps, const codegen::Dialect& dialect) {
  if (!dialect.explicit_vectors) return gpu::emit(p, x, caps, dialect);
  const Tiling t = tiling(p, x, caps.vector_bits);
  if (t.scratch_bytes > (int64_t(1) << 30)) return user_error("gemm needs too much scratch", number(t.scratch_bytes) + " bytes for one thread");
  backend::KernelPlan plan;
  plan.name = name_of(p);
  plan.numerics_class = "gemm " + std::string(ir::name(p.arithmetic)) + ": one fma chain in increasing k";
  Source s(dialect, plan.name, "kernels/gemm/emit.cpp",
           "mr=" + number(x.mr) + " vectors=" + number(x.vectors) + " mc=" + number(x.mc) + " nc=" + number(x.nc) + " kc=" + number(x.kc) +
               " pack_a=" + number(x.pack_a) + " b_source=" + number(x.b_source),
           work_text(p));
  if (p.empty()) {  // nothing to compute, nothing to launch
    plan.text = s.take();
    return plan;
  }
  s.include("codegen/row.inc.h");
  s.include("kernels/gemm/device_cpu.h");
  const bool streams = BSource(x.b_source) == BSource::stream;
  if (streams) s.include("kernels/gemm/device_cpu_stream.h");
  s.open("namespace of_" + plan.name);
  print_shape(s, p, x, t);
  print_epilogue(s, p, t);

  const bool packs = BSource(x.b_source) == BSource::panels && p.k > 0;
  const std::string pack_entry = plan.name + "_pack_b", entry = plan.name;
  const BufferRef packed = p.b.weight ? BufferRef{BufferKind::prepared, 0} : BufferRef{BufferKind::workspace, 0};
  if (packs) {
    s.line("// args: B, packed B; a group is one panel of one matrix");
    s.open("KERNEL(" + pack_entry + ")");
    s.line("const auto* const b = ARG(const Shape::B, 0);");
    s.line("auto* const panels = ARG(Shape::Panel, 1);");
    s.line("constexpr i64 count = gemm::Tiling<Shape>::panels;");
    s.line("GROUP_LOOP(g) gemm::pack_panel<Shape>(b + Shape::b_offset(g / count), panels, g / count, g % count);");
    s.close();
    s.line();
    backend::Launch pack{pack_entry, {p.b_matrices * t.panels, 1, 1}, {}, 0, {BufferRef{BufferKind::input, p.b.input}, packed}};
    (p.b.weight ? plan.prepare : plan.steps).push_back(std::move(pack));
    (p.b.weight ? plan.prepared_bytes : plan.workspace_bytes).push_back(t.packed_bytes);
  }

  backend::Launch product{entry, {t.groups, 1, 1}, {}, t.scratch_bytes, {}};
  s.line("// args: A, B" + std::string(packs ? " packed" : "") + ", then the epilogue's buffers; a group is one MC x NC tile");
  s.open("KERNEL(" + entry + ")");
  s.line("static_assert(gemm::" + std::string(streams ? "Streaming" : "Tiling") + "<Shape>::scratch_bytes == " + number(t.scratch_bytes) + ");");
  int first = 0;
  if (p.k > 0) {
    s.line("const auto* const a = ARG(const Shape::A, 0);");
    s.line(packs ? "const Shape::B* const b = nullptr;" : "const auto* const b = ARG(const Shape::B, 1);");
    if (packs) s.line("const auto* const panels = ARG(const Shape::Panel, 1);");
    else if (!streams) s.line("const Shape::Panel* const panels = nullptr;");
    product.arguments = {BufferRef{BufferKind::input, p.a.input}, packs ? packed : BufferRef{BufferKind::input, p.b.input}};
    first = 2;
  } else {
    s.line("const Shape::A* const a = nullptr;  // K = 0: only the epilogue of 0");
    s.line("const Shape::B* const b = nullptr;");
    s.line("const Shape::Panel* const panels = nullptr;");
  }
  codegen::print_buffers(s, p.epilogue, first);
  std::string members;
  for (size_t i = 0; i < p.epilogue.buffers.size(); ++i) members += (i ? ", b" : "b") + number(int64_t(i));
  s.line("const Epilogue epilogue{" + members + "};");
  s.line(streams ? "GROUP_LOOP(g) gemm::stream<Shape>(a, b, scratch, epilogue, g);"
                 : "GROUP_LOOP(g) gemm::tile<Shape>(a, b, panels, scratch, epilogue, g);");
  s.close();
  s.close();
  for (const auto& buffer : codegen::buffer_arguments(p.epilogue)) product.arguments.push_back(buffer);
  plan.steps.push_back(std::move(product));
  plan.text = s.take();
  return plan;
}

}  // namespace rtx::kernels::gemm

// The text for GPUs: the device header of the main loop, the problem as a struct of constants, the epilogue as one printed row dealt
// to threads, one entry; a second one that adds the parts where K is split.
#include <algorithm>

#include "codegen/print.h"
#include "kernels/gemm/gpu.h"
#include "kernels/teams.h"

namespace rtx::kernels::gemm::gpu {

using backend::BufferKind;
using backend::BufferRef;
using codegen::Source;

namespace {

constexpr int64_t kSumThreads = 128;

// What a main loop is called: its header and its function.
struct Spelling {
  const char* header;
  const char* function;
  const char* sizes;
};
Spelling spelling(Loop loop) {
  switch (loop) {
    case Loop::mma: return {"kernels/gemm/device_mma.h", "mma_tile", "Mma"};
    case Loop::stream: return {"kernels/gemm/device_gpu_stream.h", "stream_columns", "Stream"};
    case Loop::mma_stream: return {"kernels/gemm/device_mma_stream.h", "mma_stream_columns", "MmaStream"};
    case Loop::scalar:
    case Loop::wgmma:
    case Loop::wgmma_stream: break;
  }
  return {"kernels/gemm/device_gpu.h", "scalar_tile", "Scalar"};
}

std::string offset_text(const codegen::Index& index) {
  return index.text([](int) { return std::string("batch"); }, [](int) { return std::string("0"); });
}

void print_shape(Source& s, const Problem& p, const Params& x, const Tiling& t, int64_t threads_of_row) {
  const bool stream = streams(Loop(x.loop));
  s.open("struct Shape");
  s.line("using A = " + codegen::type_text(p.a.dtype) + ";");
  s.line("using B = " + codegen::type_text(p.b.dtype) + ";");
  s.line("using T = " + codegen::type_text(p.arithmetic) + ";");
  s.line("static constexpr i64 M = " + number(p.m) + ", N = " + number(p.n) + ", K = " + number(p.k) + ", BATCHES = " + number(p.batches) + ";");
  s.line("static constexpr i64 a_row = " + number(p.a.row_stride) + ", a_col = " + number(p.a.column_stride) + ", b_row = " +
         number(p.b.row_stride) + ", b_col = " + number(p.b.column_stride) + ";");
  s.line("static constexpr int BM = " + number(stream ? p.m : x.block_m) + ", BN = " + number(x.block_n) + ", BK = " + number(x.block_k) +
         ", WAVES_M = " + number(x.waves_m) + ", WAVES_N = " + number(x.waves_n) + ", WAVES_K = " + number(x.waves_k) + ", STAGES = " +
         number(x.stages) + ";");
  s.line("static constexpr int SPLIT = " + number(x.split) + ", ROW_THREADS = " + number(threads_of_row) + ";");
  s.line("static constexpr i64 SPLIT_K = " + number(t.split_k) + ";");
  s.line("DEVICE static i64 a_offset([[maybe_unused]] i64 batch) { return " + offset_text(p.a.offset) + "; }");
  s.line("DEVICE static i64 b_offset([[maybe_unused]] i64 batch) { return " + offset_text(p.b.offset) + "; }");
  s.close(";");
  s.line();
}

std::string numerics(const Problem& p, const Params& x, const Tiling& t) {
  std::string out = "gemm " + std::string(ir::name(p.arithmetic)) + ": ";
  switch (Loop(x.loop)) {
    case Loop::mma: out += "mma 16x8x16 in increasing k"; break;
    case Loop::stream:
      out += "streamed " + std::string(p.b.row_stride == 1 ? "along k" : "along n, " + number(x.block_n / x.waves_n) + " columns a wave") + ", " + number(x.waves_k) + " waves";
      break;
    case Loop::mma_stream:
      out += "streamed by mma 16x8x16 along " + std::string(p.b.row_stride == 1 ? "k" : "n") + ", " + number(x.waves_k) + " waves";
      break;
    case Loop::scalar:
    case Loop::wgmma:
    case Loop::wgmma_stream: out += "one fma chain in increasing k"; break;
  }
  if (x.split > 1) out += "; parts of " + number(t.split_k) + " added in order";
  return out;
}

}  // namespace

std::string number(int64_t value) { return std::to_string(value); }

int row_width(const Problem& p) {
  int64_t bytes = 2;
  for (const auto& store : p.epilogue.stores) bytes = std::max(bytes, ir::bytes_of(p.epilogue.buffers[size_t(store.buffer)].dtype));
  return int(std::clamp<int64_t>(16 / bytes, 1, 8));
}

int64_t row_threads(int64_t columns, int64_t width) {
  int64_t threads = 1;
  while (threads < 32 && threads * 2 * width <= columns) threads *= 2;
  return threads;
}

void print_epilogue(Source& s, const Problem& p, int64_t threads, int64_t begin_alignment, const Leaf& leaf, bool pairs, int other) {
  const auto& buffers = p.epilogue.buffers;
  const std::string type = codegen::type_text(p.arithmetic);
  s.open("struct Epilogue");
  for (size_t i = 0; i < buffers.size(); ++i)
    s.line((buffers[i].output ? "" : "const ") + codegen::type_text(buffers[i].dtype) + "* b" + number(int64_t(i)) + ";");
  codegen::RowLoop loop;
  loop.inner = Problem::n_variable;
  loop.begin = "n";
  loop.outer = {{Problem::batch_variable, "batch"}, {Problem::m_variable, "m"}};
  if (pairs) {
    codegen::RowLoop two = loop;
    two.at = "0";
    two.begin_alignment = two.vector_width = 2;
    constexpr int kOther = 2;  // a leaf beside the sums
    two.leaf = [](int which, int, const std::string&) { return std::string(which == 0 ? "sums" : which == kOther ? "other" : "second"); };
    codegen::ElementDag dag = without_stores(p.epilogue);
    if (other >= 0) dag.elements[size_t(other)].kind = codegen::Element::Kind::leaf, dag.elements[size_t(other)].leaf = kOther;
    two.after = [&](Source& source, int, const std::string&, const std::function<std::string(int)>& value) {
      source.line("return " + value(p.epilogue.stores.front().value) + ";");
    };
    s.open("DEVICE vec<" + type + ", 2> pair(const vec<" + type + ", 2>& sums, [[maybe_unused]] const vec<" + type + ", 2>& second, [[maybe_unused]] const vec<" + type + ", 2>& other, [[maybe_unused]] i64 batch, [[maybe_unused]] i64 m, [[maybe_unused]] i64 n) const");
    codegen::print_row(s, dag, two);
    s.close();
  } else {
    loop.count = "count";
    loop.begin_alignment = p.in_turn ? begin_alignment / 2 : begin_alignment;
    loop.vector_width = row_width(p);
    loop.lane = "place";
    loop.lanes = threads;
    loop.leaf = [&](int which, int width, const std::string& i) { return leaf(width, p.in_turn ? "gemm::in_turn(" + i + ", " + number(which) + ")" : i); };
    s.open("DEVICE void row([[maybe_unused]] const " + type +
           "* sums, [[maybe_unused]] i64 batch, [[maybe_unused]] i64 m, [[maybe_unused]] i64 n, i64 count, int place) const");
    if (p.in_turn) s.line("n /= 2, count /= 2;");
    codegen::print_row(s, p.epilogue, loop);
    s.close();
  }
  s.close(";");
  s.line();
}

std::string epilogue_value(const Problem& p) {
  std::string members;
  for (size_t i = 0; i < p.epilogue.buffers.size(); ++i) members += (i ? ", b" : "b") + number(int64_t(i));
  return "const Epilogue epilogue{" + members + "};";
}

void print_sum_epilogue(Source& s, const Problem& p) {
  print_epilogue(s, p, 32, 32 * row_width(p), [](int w, const std::string& i) { return "gemm::all_parts<Shape, " + number(w) + ">(sums + " + i + ")"; });
}

backend::Launch print_sum(Source& s, const Problem& p, const std::string& entry) {
  const int64_t span = 32 * row_width(p), waves = kSumThreads / 32, pieces = p.batches * p.m * ((p.n + span - 1) / span);
  backend::Launch sum{entry + "_sum", {(pieces + waves - 1) / waves, 1, 1}, {kSumThreads, 1, 1}, 0, {BufferRef{BufferKind::workspace, 0}}};
  s.line();
  s.line("// args: sums of the parts, then the epilogue's buffers; a wave is a piece of a row");
  s.open_kernel(sum.entry, int(kSumThreads), 1);
  s.line("const auto* const sums = ARG(const Shape::T, 0);");
  codegen::print_buffers(s, p.epilogue, 1);
  s.line(epilogue_value(p));
  s.line("GROUP_LOOP(g) gemm::sum_parts<Shape, " + number(kSumThreads) + ", " + number(span) + ">(sums, epilogue, g);");
  for (const auto& buffer : codegen::buffer_arguments(p.epilogue)) sum.arguments.push_back(buffer);
  s.close_kernel(int64_t(sum.arguments.size()));
  return sum;
}

Result<backend::KernelPlan> emit(const Problem& p, const Params& x, const backend::Caps& caps, const codegen::Dialect& dialect) {
  if (Loop(x.loop) == Loop::wgmma) return wgmma_emit(p, x, caps, dialect);
  if (Loop(x.loop) == Loop::wgmma_stream) return wgmma_stream_emit(p, x, dialect);
  const Tiling t = tiling(p, x);
  const Loop loop = Loop(x.loop);
  const Spelling spelled = spelling(loop);
  backend::KernelPlan plan;
  plan.name = name_of(p);
  plan.numerics_class = numerics(p, x, t);
  Source s(dialect, plan.name, "kernels/gemm/emit_gpu.cpp",
           "loop=" + number(x.loop) + " block=" + number(x.block_m) + "x" + number(x.block_n) + "x" + number(x.block_k) + " waves=" + number(x.waves_m) +
               "x" + number(x.waves_n) + "x" + number(x.waves_k) + " stages=" + number(x.stages) + " split=" + number(x.split),
           work_text(p));
  if (p.empty()) {  // nothing to compute, nothing to launch
    plan.text = s.take();
    return plan;
  }
  s.include("kernels/gemm/device_gpu.h");
  if (streams(loop)) s.include("kernels/gemm/device_gpu_stream.h");
  if (loop != Loop::stream) s.include(spelled.header);
  const int width = row_width(p);
  const std::string type = codegen::type_text(p.arithmetic), entry = plan.name;
  const bool split = x.split > 1;
  const int64_t wave_n = streams(loop) ? x.block_n : x.block_n / x.waves_n;
  s.open("namespace of_" + plan.name);
  print_shape(s, p, x, t, row_threads(wave_n, width));
  const auto vector_of = [&](int w) { return w == 1 ? type : "vec<" + type + ", " + number(w) + ">"; };
  if (split) print_sum_epilogue(s, p);
  else
    print_epilogue(s, p, row_threads(wave_n, width), wave_n, [&](int w, const std::string& i) { return "gemm::aligned<" + vector_of(w) + ">(sums + " + i + ")"; });

  backend::Launch product{entry, {t.groups, 1, 1}, {t.threads, 1, 1}, t.scratch_bytes, {}};
  s.line(std::string("// args: A, B, ") + (split ? "sums of the parts" : "then the epilogue's buffers") + "; a group is one block of C" + (split ? " over one part of K" : ""));
  s.open_kernel(entry, int(t.threads), int(t.groups_per_core));
  s.line("static_assert(gemm::" + std::string(spelled.sizes) + "<Shape>::scratch_bytes == " + number(t.scratch_bytes) + " && gemm::Grid<Shape>::groups == " + number(t.groups) + ");");
  int first = 0;
  if (p.k > 0) {
    s.line("const auto* const a = ARG(const Shape::A, 0);");
    s.line("const auto* const b = ARG(const Shape::B, 1);");
    product.arguments = {BufferRef{BufferKind::input, p.a.input}, BufferRef{BufferKind::input, p.b.input}};
    first = 2;
  } else {
    s.line("const Shape::A* const a = nullptr;  // K = 0: only the epilogue of 0");
    s.line("const Shape::B* const b = nullptr;");
  }
  if (split) {
    s.line("auto* const sums = ARG(Shape::T, " + number(first) + ");");
    s.line("GROUP_LOOP(g) gemm::" + std::string(spelled.function) + "<Shape>(a, b, gemm::Partial<Shape>(sums, g), g);");
    product.arguments.push_back({BufferKind::workspace, 0});
    plan.workspace_bytes.push_back(t.workspace_bytes);
  } else {
    codegen::print_buffers(s, p.epilogue, first);
    s.line(epilogue_value(p));
    s.line("GROUP_LOOP(g) gemm::" + std::string(spelled.function) + "<Shape>(a, b, epilogue, g);");
    for (const auto& buffer : codegen::buffer_arguments(p.epilogue)) product.arguments.push_back(buffer);
  }
  s.close_kernel(int64_t(product.arguments.size()));
  plan.steps.push_back(std::move(product));

  if (split) plan.steps.push_back(print_sum(s, p, entry));
  s.close();
  plan.text = s.take();
  return plan;
}

}  // namespace rtx::kernels::gemm::gpu

// The text of Loop::wgmma: views of the operands, the problem as a struct of constants, the epilogue, one persistent kernel.
#include <algorithm>

#include "codegen/print.h"
#include "kernels/gemm/gpu.h"

namespace rtx::kernels::gemm::gpu {

using backend::BufferKind;
using backend::BufferRef;
using codegen::Source;

namespace {

const char* word(bool value) { return value ? "true" : "false"; }

// Registers of a thread of the copying warpgroup and of one that multiplies: 64512 in all.
struct Registers {
  int copy = 0, multiply = 0;  // 0: as launched
};
Registers registers_of(const Params& x) {
  if (x.waves_m == 2) return {40, 232};
  if (x.waves_m == 3) return {32, 160};
  return {};
}

void print_shape(Source& s, const Problem& p, const Params& x, const Tiling& t, const View& a, const View& b, const View* c, const View* other) {
  const Registers registers = registers_of(x);
  s.open("struct Shape");
  s.line("using A = " + codegen::type_text(p.a.dtype) + ";");
  s.line("using T = f32;");
  s.line("static constexpr i64 M = " + number(p.m) + ", N = " + number(p.n) + ", K = " + number(p.k) + ", BATCHES = " + number(p.batches) + ";");
  s.line("static constexpr int BM = " + number(x.block_m) + ", BN = " + number(x.block_n) + ", STAGES = " + number(x.stages) + ", CONSUMERS = " + number(x.waves_m) +
         ", RASTER = " + number(x.raster) + ", BOXES = " + number(wgmma_boxes(x)) + ";");
  s.line(std::string("static constexpr bool IN_TURN = ") + word(p.in_turn) + ";");
  s.line(std::string("static constexpr bool PING_PONG = ") + word(x.schedule == 1) + ", OTHER_VIEW = " + word(other) + ";");
  s.line(std::string("static constexpr bool A_ALONG_K = ") + word(a.along_k) + ", B_ALONG_K = " + word(b.along_k) + ";");
  s.line(std::string("static constexpr bool A_BATCHES = ") + word(a.batches) + ", B_BATCHES = " + word(b.batches) + ", C_BATCHES = " + word(c && c->batches) + ", OTHER_BATCHES = " +
         word(other && other->batches) + ";");
  s.line("static constexpr int REGISTERS_COPY = " + number(registers.copy) + ", REGISTERS_MULTIPLY = " + number(registers.multiply) + ";");
  s.line("static constexpr int SPLIT = " + number(x.split) + ", ROW_THREADS = " + number(row_threads(64, row_width(p))) + ";");
  s.line("static constexpr i64 SPLIT_K = " + number(t.split_k) + ";");
  s.close(";");
  s.line();
}

}  // namespace

void print_wgmma_width(Source& s, int64_t columns) {
  const std::string n = number(columns);
  for (const std::string& line : {"#ifndef WGMMA_WIDTH_" + n, "#define WGMMA_WIDTH_" + n, "WGMMA_WIDTH(" + n + ")", std::string("#endif")}) s.line(line);
}

Result<backend::KernelPlan> wgmma_emit(const Problem& p, const Params& x, const backend::Caps& caps, const codegen::Dialect& dialect) {
  const Tiling t = wgmma_tiling(p, x);
  const auto a = view_of_a(p, x.block_m), b = view_of_b(p, x.block_n);
  const auto c = x.finish > 0 ? view_of_c(p) : std::nullopt, other = x.finish == 2 ? view_of_other(p) : std::nullopt;
  if (!a || !b) return user_error("gemm has no tensor views of its operands", "the rules of its space exclude this loop");
  const bool split = x.split > 1;
  backend::KernelPlan plan;
  plan.name = name_of(p);
  plan.numerics_class = "gemm f32: products of 16 in increasing k by warpgroups" + (split ? "; parts of " + number(t.split_k) + " added in order" : std::string());
  Source s(dialect, plan.name, "kernels/gemm/emit_wgmma.cpp",
           "block=" + number(x.block_m) + "x" + number(x.block_n) + (x.schedule == 1 ? " ping-pong" : " warpgroups=" + number(x.waves_m)) + " stages=" + number(x.stages) +
               " raster=" + number(x.raster) + " split=" + number(x.split) + " finish=" + number(x.finish),
           work_text(p));
  for (const char* header : {"kernels/gemm/device_gpu.h", "kernels/gemm/device_wgmma.h"}) s.include(header);
  const std::string entry = plan.name;
  print_wgmma_width(s, x.block_n);
  s.open("namespace of_" + plan.name);
  print_shape(s, p, x, t, *a, *b, c ? &*c : nullptr, other ? &*other : nullptr);
  if (split) print_sum_epilogue(s, p);
  else
    print_epilogue(s, p, row_threads(64, row_width(p)), 64, [&](int w, const std::string& i) { return "gemm::aligned<" + codegen::lanes_text(ir::DType::f32, w) + ">(sums + " + i + ")"; },
                   c.has_value(), other ? other_load(p) : -1);

  backend::Launch product{entry, {std::min<int64_t>(t.groups, std::max(1, caps.cores)), 1, 1}, {t.threads, 1, 1}, t.scratch_bytes, {}, {}};
  product.arguments = {BufferRef{BufferKind::input, p.a.input}, BufferRef{BufferKind::input, p.b.input}};
  product.views = {a->tensor, b->tensor};
  product.views[0].argument = 0;
  product.views[1].argument = 1;
  std::string finish;
  if (split) {
    product.arguments.push_back({BufferKind::workspace, 0});
    plan.workspace_bytes.push_back(t.workspace_bytes);
    finish = "gemm::InParts<Shape>{ARG(f32, 2)}";
  } else {
    for (const auto& buffer : codegen::buffer_arguments(p.epilogue)) product.arguments.push_back(buffer);
    const auto type = [&](int buffer) { return codegen::type_text(p.epilogue.buffers[size_t(buffer)].dtype); };
    const int result = p.epilogue.stores.front().buffer, beside = other ? p.epilogue.elements[size_t(other_load(p))].buffer : result;
    if (c) product.views.push_back(c->tensor), product.views.back().argument = 2 + result;
    if (other) product.views.push_back(other->tensor), product.views.back().argument = 2 + beside;
    finish = c ? "gemm::InView<Shape, " + type(result) + ", " + type(beside) + ", Epilogue>{VIEW(2), " + (other ? "VIEW(3)" : "nullptr") + ", epilogue}"
               : "gemm::InRows<Shape, Epilogue>{epilogue}";
  }
  s.line(std::string("// args: A, B, ") + (split ? "sums of the parts" : "then the epilogue's buffers") + "; views of A, B" + (c ? ", C" : "") + (other ? " and what is added" : "") + "; a group takes tiles in turn");
  s.open_kernel(entry, int(t.threads), 1, int(product.views.size()));
  s.line("static_assert(gemm::WgmmaTile<Shape>::scratch_bytes == " + number(t.scratch_bytes) + " && gemm::WgmmaTile<Shape>::tiles == " + number(t.groups) + ");");
  if (!split) {
    codegen::print_buffers(s, p.epilogue, 2);
    s.line(epilogue_value(p));
  }
  s.line("gemm::wgmma_tiles<Shape>(VIEW(0), VIEW(1), " + finish + ");");
  s.close_kernel(int64_t(product.arguments.size()));
  plan.steps.push_back(std::move(product));
  if (split) plan.steps.push_back(print_sum(s, p, entry));
  s.close();
  plan.text = s.take();
  return plan;
}

}  // namespace rtx::kernels::gemm::gpu

// The suite's own kernels, written in the words that every dialect's prelude has: KERNEL, GROUP_LOOP, ARG,
// RESTRICT and the element types. One text, so that a backend compiles once for the whole suite. On a GPU a
// group is one thread here.
#include "backend/conformance/conformance.h"
#include "codegen/source.h"

namespace rtx::backend::conformance {

std::string Bench::text() const {
  codegen::Source s(dialect_, "conformance", "backend/conformance/kernels.cpp", "none", "0 Mflop");

  // y[g] += 1
  s.open_kernel("conformance_count");
  s.line("i32* const y = ARG(i32, 0);");
  s.open("GROUP_LOOP(g)");
  s.line("y[g] += 1;");
  s.close();
  s.close_kernel(1);
  s.line();

  // y[g] = 3 x[g] + 1, exact in f32 for small integers
  s.open_kernel("conformance_affine");
  s.line("const f32* const x = ARG(const f32, 0);");
  s.line("f32* const y = ARG(f32, 1);");
  s.open("GROUP_LOOP(g)");
  s.line("y[g] = 3.f * x[g] + 1.f;");
  s.close();
  s.close_kernel(2);
  s.line();

  // Argument k holds k; out[k] = its number, for twelve of them
  s.open_kernel("conformance_arguments");
  s.line("i64* const y = ARG(i64, 12);");
  s.open("GROUP_LOOP(g)");
  for (int k = 0; k < 12; ++k)
    s.line("y[g * 12 + " + std::to_string(k) + "] = *ARG(const i64, " + std::to_string(k) + ");");
  s.close();
  s.close_kernel(13);
  s.line();

  // Every group writes its number over all of its scratch, does other work, and sums what it finds there. The
  // number of words comes from memory, so that one kernel serves every size.
  s.open_kernel("conformance_scratch");
  s.line("const i64 words = *ARG(const i64, 0);");
  s.line("i64* const sums = ARG(i64, 1);");
  s.line("i64* const misaligned = ARG(i64, 2);");
  s.line("volatile i64* const mine = static_cast<i64*>(scratch);");
  s.open("GROUP_LOOP(g)");
  s.line("for (i64 i = 0; i < words; ++i) mine[i] = g;");
  s.line("i64 sum = 0;");
  s.line("for (i64 i = words; i-- > 0;) sum += mine[i];");
  s.line("sums[g] = sum;");
  s.line("misaligned[g] = i64(u64(scratch) % 64);");
  s.close();
  s.close_kernel(3);
  return s.take();
}

}  // namespace rtx::backend::conformance

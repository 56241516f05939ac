// The structure of the unfused baseline on cuda, without a GPU: which nodes stay one, which become calls of
// cuBLASLt, and that nothing of attention is fused.
#include <gtest/gtest.h>

#include <map>

#include "backend/cuda/compile_library.h"
#include "base/text.h"
#include "fuse/recognise.h"
#include "fuse/region.h"
#include "ir/text.h"
#include "kernels/family.h"

namespace rtx::tools {
namespace {

// A block with its norm and its GELU written out, rotary, and four query heads that share two key heads.
ir::Graph block(const std::string& dtype) {
  std::string text =
      "x: T[1,6,32]; g: T[32]; b: T[32]; wq: T[32,32]; wk: T[32,16]; wv: T[32,16]; bq: T[32]; bk: T[16]; bv: "
      "T[16]; c: T[1,6,4]; n: T[1,6,4]; wo: T[32,32]; "
      "w1: T[32,64]; b1: T[64]; w2: T[64,32]; eps: const T[] {0.001}; three: const T[] {3}; cubic: const T[] "
      "{0.044715}; slope: const T[] {0.79788456}; one: const T[] {1}; "
      "half: const T[] {0.5}; "
      "m = reduce_mean(x, axes=[2], keepdims=1); d = sub(x, m); p = mul(d, d); v = reduce_mean(p, axes=[2], "
      "keepdims=1); e = add(v, eps); s = sqrt(e); n0 = div(d, s); "
      "n1 = mul(n0, g); n2 = add(n1, b); "
      "q0 = matmul(n2, wq); q1 = add(q0, bq); q2 = reshape(q1): [1,6,4,8]; q3 = transpose(q2, "
      "perm=[0,2,1,3]); q4 = rotary(q3, c, n, rotary_dim=8); "
      "k0 = matmul(n2, wk); k1 = add(k0, bk); k2 = reshape(k1): [1,6,2,8]; k3 = transpose(k2, "
      "perm=[0,2,1,3]); k4 = rotary(k3, c, n, rotary_dim=8); "
      "v0 = matmul(n2, wv); v1 = add(v0, bv); v2 = reshape(v1): [1,6,2,8]; v3 = transpose(v2, "
      "perm=[0,2,1,3]); "
      "a = attention(q4, k4, v3, scale=0.35, causal=1); t = transpose(a, perm=[0,2,1,3]); h = reshape(t): "
      "[1,6,32]; o = matmul(h, wo); r = add(x, o); "
      "u0 = matmul(r, w1); u = add(u0, b1); p3 = pow(u, three); p4 = mul(p3, cubic); p5 = add(u, p4); p6 = "
      "mul(p5, slope); p7 = tanh(p6); p8 = add(p7, one); p9 = mul(u, p8); "
      "gl = mul(p9, half); dn = matmul(gl, w2); y = add(r, dn); return y";
  return ir::parse_or_die(replace_all(text, "T[", dtype + "["));
}

struct Structure {
  std::map<std::string, int> families;  // of regions that are ours
  int library = 0;
};
Structure structure(const ir::Graph& graph) {
  Structure out;
  const auto cut =
      fuse::partition(fuse::recognise(graph, {.attention = false}), kernels::patterns(), {.fuse = false});
  EXPECT_TRUE(cut.ok()) << (cut.ok() ? "" : cut.error().text());
  if (!cut.ok()) return out;
  for (const auto& region : cut->regions) {
    EXPECT_EQ(region.nodes.size(), 1u) << region.name;
    if (backend::cuda::library_matmul(region.body, "/library"))
      ++out.library;
    else
      ++out.families[region.pattern];
  }
  return out;
}

TEST(UnfusedBaseline, has_a_kernel_a_node_and_the_librarys_call_for_each_product) {
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    const auto found = structure(block(dtype));
    EXPECT_EQ(found.library, 8) << dtype;  // q, k, v, scores, weighted sum, output, up, down
    const std::map<std::string, int> wanted = {
        {"norm", 1},      {"softmax", 1}, {"rotary", 2}, {"movement", 4},  // the transposes of heads
        {"pointwise", 9},  // four biases, two residuals, GELU, scale, mask
    };
    EXPECT_EQ(found.families, wanted) << dtype;
  }
}

TEST(UnfusedBaseline, of_a_type_that_the_library_does_not_compute_is_ours_throughout) {
  const auto graph = ir::parse_or_die("x: i32[6,8]; w: i32[8,4]; y = matmul(x, w); z = add(y, y); return z");
  const auto found = structure(graph);
  EXPECT_EQ(found.library, 0);
  EXPECT_EQ(found.families.size(), 2u);
}

}  // namespace
}  // namespace rtx::tools

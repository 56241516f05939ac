#include "validate/whole.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/text.h"

namespace rtx::validate {
namespace {

// The result of a graph with one element changed by `relative`, judged as a whole model.
struct Judged {
  WholeComparison exact, rounded, off;
};
Judged judge(const std::string& text, double relative) {
  const auto graph = ir::parse_or_die(text);
  const auto inputs = make_inputs(graph, 1, InputKind::random);
  const auto exact = *reference::run(graph, inputs), rounded = *reference::run(graph, inputs, {.round_each_op = true});
  const auto at_once = reference::to_host(exact[0]), by_node = reference::to_host(rounded[0]);
  ir::HostTensor off = at_once;
  for (int64_t i = 0; i < off.count(); ++i) off.set_double(i, off.get_double(i) * (1 + (i % 2 ? relative : -relative)));
  return {compare_whole(graph, 0, at_once, exact[0], rounded[0]), compare_whole(graph, 0, by_node, exact[0], rounded[0]), compare_whole(graph, 0, off, exact[0], rounded[0])};
}

std::string two_products(const std::string& type) {
  return "x: " + type + "[16,64]; a: " + type + "[64,64]; b: " + type + "[64,32]; h = matmul(x, a); g = gelu(h); y = matmul(g, b); return y";
}

TEST(Whole, narrow_types_may_lose_what_the_graph_loses_node_by_node_and_no_more) {
  for (const char* type : {"f16", "bf16"}) {
    const double node_by_node = judge(two_products(type), 0).exact.node_by_node;
    EXPECT_GT(node_by_node, 1e-4);
    const auto judged = judge(two_products(type), 1.4 * node_by_node);
    EXPECT_TRUE(judged.exact.comparison.agrees) << judged.exact.comparison.detail.text();
    EXPECT_TRUE(judged.rounded.comparison.agrees) << judged.rounded.comparison.detail.text();
    EXPECT_FALSE(judged.off.comparison.agrees) << type;
    EXPECT_TRUE(judged.exact.judged_by_nodes);
    EXPECT_NEAR(judged.exact.comparison.detail.norm_allowed, node_by_node * (1 + 4 / std::sqrt(16 * 32)), 1.1e-6);
  }
}

TEST(Whole, f32_may_lose_what_one_region_may_since_kernels_sum_in_f32) {
  const auto judged = judge(two_products("f32"), 0.8e-6);
  EXPECT_LT(judged.exact.node_by_node, 3e-7);
  EXPECT_FALSE(judged.exact.judged_by_nodes);
  EXPECT_DOUBLE_EQ(judged.exact.comparison.detail.norm_allowed, 1e-6);
  EXPECT_TRUE(judged.off.comparison.agrees) << judged.off.comparison.detail.text();
  EXPECT_FALSE(judge(two_products("f32"), 1.2e-6).off.comparison.agrees);
}

TEST(Whole, f32_outputs_behind_narrow_tensors_are_narrow_and_others_are_not) {
  const auto narrow = judge("x: f32[16,64]; h = cast(x): f16; e = exp(h); y = cast(e): f32; return y", 0);
  EXPECT_TRUE(narrow.exact.judged_by_nodes);
  const auto apart = judge("x: f32[16,64]; y = exp(x); h = cast(y): f16; return y, h", 0);
  EXPECT_FALSE(apart.exact.judged_by_nodes);
}

TEST(Whole, the_longest_sum_on_the_way_counts) {
  const auto judged = judge("x: f32[4,4096]; w: f32[4096,8]; y = matmul(x, w); return y", 0);
  EXPECT_DOUBLE_EQ(judged.exact.comparison.detail.norm_allowed, 2e-6);
}

}  // namespace
}  // namespace rtx::validate

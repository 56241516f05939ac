// Attention written out for the unfused baseline: the same values, as products, scale, mask and softmax; and operators that stand alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "fuse/recognise.h"
#include "fuse/region.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "reference/reference.h"

namespace rtx::fuse {
namespace {

using ir::DType;
using ir::Op;

ir::Graph attention(int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys, ir::Attributes attributes, DType mask = DType::f64, bool masked = false) {
  ir::Graph graph;
  std::vector<ir::ValueId> inputs = {graph.add_input("q", DType::f64, ir::to_shape({2, heads, queries, 4})), graph.add_input("k", DType::f64, ir::to_shape({2, kv_heads, keys, 4})),
                                     graph.add_input("v", DType::f64, ir::to_shape({2, kv_heads, keys, 3}))};
  if (masked) inputs.push_back(graph.add_input("mask", mask, ir::to_shape({2, 1, 1, keys})));
  attributes.items.emplace("scale", 0.5);
  graph.outputs = {graph.add_node(Op::attention, inputs, attributes)};
  return graph;
}

bool has(const ir::Graph& graph, Op op) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& node) { return node.op == op; });
}

void expect_same_values(const ir::Graph& graph) {
  const ir::Graph out = recognise(graph, {.attention = false});
  ASSERT_TRUE(ir::verify(out).ok());
  EXPECT_FALSE(has(out, Op::attention));
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<ir::HostTensor> inputs;
  for (const auto id : graph.inputs) {
    auto& tensor = inputs.emplace_back(graph.value(id).dtype, graph.extents(id));
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, graph.value(id).dtype == DType::boolean ? i % 3 != 1 : normal(random));
  }
  const auto before = reference::run(graph, inputs), after = reference::run(out, inputs);
  ASSERT_TRUE(before.ok() && after.ok());
  for (size_t i = 0; i < (*before)[0].reals.size(); ++i) ASSERT_NEAR((*before)[0].reals[i], (*after)[0].reals[i], 1e-12) << i;
}

TEST(Decompose, attention_is_products_scale_mask_and_softmax_with_the_same_values) {
  expect_same_values(attention(3, 3, 5, 5, {}));
  expect_same_values(attention(4, 2, 5, 5, {{{"causal", int64_t{1}}}}));
  expect_same_values(attention(4, 1, 2, 6, {{{"causal", int64_t{1}}, {"causal_offset", int64_t{4}}}}));
  expect_same_values(attention(4, 2, 5, 6, {}, DType::f64, true));
  expect_same_values(attention(4, 2, 5, 6, {}, DType::boolean, true));
}

TEST(Decompose, what_a_softmax_would_change_stays_attention) {
  EXPECT_TRUE(has(recognise(attention(2, 2, 6, 3, {{{"causal", int64_t{1}}, {"causal_offset", int64_t{-3}}}}), {.attention = false}), Op::attention));
  EXPECT_TRUE(has(recognise(attention(2, 2, 6, 6, {{{"softcap", 3.0}}}), {.attention = false}), Op::attention));
}

TEST(Decompose, heads_that_a_model_repeats_in_memory_are_read_by_stride) {
  const auto graph = ir::parse_or_die(
      "q: f32[2,6,4,8]; k: f32[2,3,5,8]; v: f32[2,3,5,7]; a = reshape(k): [2,3,1,5,8]; b = expand(a): [2,3,2,5,8]; c = reshape(b): [2,6,5,8]; d = reshape(v): [2,3,1,5,7]; "
      "e = expand(d): [2,3,2,5,7]; f = reshape(e): [2,6,5,7]; s = matmul(q, c, trans_b=1); h: const f32[] {0.5}; t = mul(s, h); p = softmax(t, axis=3); y = matmul(p, f); return y");
  const ir::Graph out = recognise(graph, {.attention = false});
  ASSERT_TRUE(ir::verify(out).ok());
  EXPECT_FALSE(has(out, Op::expand));
  EXPECT_FALSE(has(out, Op::attention));
  EXPECT_TRUE(has(out, Op::softmax));
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<ir::HostTensor> inputs;
  for (const auto id : graph.inputs) {
    auto& tensor = inputs.emplace_back(DType::f32, graph.extents(id));
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, normal(random));
  }
  const auto before = reference::run(graph, inputs), after = reference::run(out, inputs);
  ASSERT_TRUE(before.ok() && after.ok());
  for (size_t i = 0; i < (*before)[0].reals.size(); ++i) ASSERT_NEAR((*before)[0].reals[i], (*after)[0].reals[i], 1e-12) << i;
}

TEST(Decompose, the_compiled_model_keeps_its_attention) { EXPECT_TRUE(has(recognise(attention(2, 2, 6, 6, {})), Op::attention)); }

TEST(Decompose, operators_that_stand_alone_take_no_neighbours_while_the_rest_is_fused) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::f32, ir::to_shape({4, 8})), w = graph.add_input("w", DType::f32, ir::to_shape({8, 4}));
  const auto y = graph.add_node(Op::matmul, {x, w}, {{{"trans_a", int64_t{0}}, {"trans_b", int64_t{0}}}});
  graph.outputs = {graph.add_node(Op::tanh, {graph.add_node(Op::exp, {y})})};
  const auto any = [](const char* name) {
    Pattern pattern;
    pattern.name = name;
    pattern.anchor = [](const ir::Graph&, ir::NodeId) { return true; };
    pattern.accepts = [](const ir::Graph&) { return success(); };
    return pattern;
  };
  const auto apart = partition(graph, {any("all")}, {.alone = {Op::matmul}});
  ASSERT_TRUE(apart.ok()) << apart.error().text();
  ASSERT_EQ(apart->regions.size(), 2u);
  EXPECT_EQ(apart->regions[0].nodes.size(), 1u);
  EXPECT_EQ(apart->regions[1].nodes.size(), 2u);
}

}  // namespace
}  // namespace rtx::fuse

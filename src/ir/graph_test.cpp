#include "ir/graph.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verify.h"

namespace rtx::ir {
namespace {

TEST(Graph, dead_nodes_and_constants_go_and_inputs_stay) {
  const Graph graph = parse_or_die("x: f32[2]; u: f32[2]; c: const f32[2] {1, 2}; d = add(x, c); y = relu(x); return y");
  const Graph live = without_dead_code(graph);
  EXPECT_TRUE(verify(live).ok());
  EXPECT_EQ(to_text(live), "x: f32[2];\nu: f32[2];\ny = relu(x);\nreturn y;\n");
}

TEST(Graph, sorting_restores_the_order_and_names_a_node_of_a_cycle) {
  Graph graph = parse_or_die("x: f32[2]; y = relu(x); z = neg(y); return z");
  std::swap(graph.nodes[0], graph.nodes[1]);
  graph.value(1).producer = 1;
  graph.value(2).producer = 0;
  ASSERT_FALSE(verify(graph).ok());
  auto fixed = sorted(graph);
  ASSERT_TRUE(fixed.ok());
  EXPECT_TRUE(verify(*fixed).ok());
  graph.nodes[1].inputs[0] = 2;
  graph.nodes[1].name = "loop";
  auto cycle = sorted(graph);
  ASSERT_FALSE(cycle.ok());
  EXPECT_EQ(cycle.error().what, "graph has a cycle");
}

TEST(Graph, an_extracted_region_reads_its_surroundings_and_long_constants_as_inputs) {
  const Graph graph = parse_or_die(
      "x: f32[2]; c: const f32[2] {1, 2}; s: const f32[] {3}; a = exp(x); t = mul(a, s); b = add(t, c); d = mul(b, x); e = neg(d); return e, b");
  std::vector<ValueId> map;
  const ValueId b = graph.node(2).outputs[0];
  const ValueId d = graph.node(3).outputs[0];
  const Graph region = extract(graph, {3, 2, 1}, {d, b}, &map);
  EXPECT_TRUE(verify(region).ok());
  EXPECT_EQ(to_text(region), "a: f32[2];\nc: f32[2] weight;\nx: f32[2];\ns: const f32[] {3};\nt = mul(a, s);\nb = add(t, c);\nd = mul(b, x);\nreturn d, b;\n");
  EXPECT_EQ(map, (std::vector<ValueId>{graph.node(0).outputs[0], graph.node(2).inputs[1], graph.inputs[0]}));
}

TEST(Graph, fresh_names_do_not_collide) {
  Graph graph;
  const ValueId x = graph.add_input("add", DType::f32, {1});
  graph.add_node(Op::add, {x, x});
  const ValueId y = graph.add_node(Op::add, {x, x});
  EXPECT_EQ(graph.value(y).name, "add_2");
  EXPECT_EQ(graph.describe(1), "add f32[1]");
  EXPECT_EQ(graph.readers()[0].size(), 4u);
}

// One line a rule: what the operator is asked, and what its refusal must say.
TEST(Infer, refuses_what_is_not_well_formed) {
  const std::pair<const char*, const char*> refusals[] = {
      {"y = add(a, c)", "do not broadcast"},
      {"y = add(a, h)", "different element types"},
      {"y = add(a)", "1 inputs, expected 2"},
      {"y = add(a, _)", "input 1 is missing"},
      {"y = exp(i)", "expected a floating type"},
      {"y = logical_and(a, a)", "expected bool"},
      {"y = add(p, p)", "expected a number type"},
      {"y = where(a, a, a)", "expected bool"},
      {"y = mod(a, a)", "fmod=1"},
      {"y = gelu(a, tanh=2)", "expected 0 or 1"},
      {"y = reshape(a): [7]", "has 7"},
      {"y = transpose(a, perm=[0,0])", "not a permutation"},
      {"y = transpose(a, perm=[0])", "not a permutation"},
      {"y = transpose(a)", "perm is missing"},
      {"y = transpose(a, perm=1)", "must be a list"},
      {"y = slice(a, starts=[0,0], steps=[1,0]): [2,3]", "step of axis 1 is 0"},
      {"y = slice(a, starts=[0,1], steps=[1,1]): [2,3]", "axis 1 of size 3"},
      {"y = slice(a, starts=[0,0], steps=[1,4611686018427387904]): [2,3]", "axis 1 of size 3"},
      {"y = slice(a, starts=[0], steps=[1]): [2]", "one entry a dimension"},
      {"y = expand(a): [2,1]", "does not expand"},
      {"y = concat(a, c, axis=0)", "differs from"},
      {"y = concat(a, a, axis=2)", "outside [0, 1]"},
      {"y = concat(s, s, axis=0)", "outside [0, -1]"},
      {"y = gather(a, a)", "expected i32 or i64"},
      {"y = gather(a, i, axis=2)", "outside [0, 1]"},
      {"y = gather_nd(a, i)", "an index tuple has 4 entries, expected 1 to 2"},
      {"y = gather_nd(a, i, batch_dims=1)", "batch_dims 1"},
      {"y = gather_nd(s, i)", "rank 0, expected at least 1"},
      {"y = scatter_nd(v, k, a)", "updates have shape"},
      {"y = scatter_nd(v, k, w, reduction=5)", "outside [0, 4]"},
      {"y = trilu(v)", "rank 1, expected at least 2"},
      {"y = reduce_sum(a, axes=[2])", "outside [0, 1]"},
      {"y = reduce_sum(a, axes=[1,0])", "not sorted"},
      {"y = reduce_sum(a, axes=[0,0])", "not sorted"},
      {"y = reduce_sum(a)", "axes is missing"},
      {"y = reduce_sum(p, axes=[])", "sum of bool"},
      {"y = cumsum(a, axis=2)", "outside [0, 1]"},
      {"y = cumsum(p, axis=0)", "sum of bool"},
      {"y = cumsum(a, axis=0, reverse=2)", "reverse"},
      {"y = softmax(a, axis=-1)", "outside [0, 1]"},
      {"y = softmax(i, axis=0)", "expected a floating type"},
      {"y = layer_norm(a, c, axis=1)", "do not broadcast: 3 against 4"},
      {"y = rms_norm(a, a, axis=1)", "does not broadcast"},
      {"y = matmul(a, a)", "inner dimensions differ: 3 columns against 2 rows"},
      {"y = matmul(a, v)", "rank 1, expected at least 2"},
      {"y = matmul(a, h)", "different element types"},
      {"y = rotary(q, f, f, rotary_dim=3)", "not an even number"},
      {"y = rotary(q, f, f, rotary_dim=6)", "not an even number"},
      {"y = rotary(q, f, f, rotary_dim=2)", "expected [1,5,1]"},
      {"y = attention(q, q, q)", "scale is missing"},
      {"y = attention(q, r, r, scale=1.0)", "not a multiple of 3 key heads"},
      {"y = attention(q, q, q, a, scale=1.0)", "do not broadcast: 2 against 5"},
      {"y = attention(q, q, q, _, i, scale=1.0)", "shape [4], expected [1]"},
      {"y = attention(q, q, q, window_left=-2, scale=1.0)", "below -1"},
      {"y = attention(q, q, q, softcap=-1.0, scale=1.0)", "softcap"},
      {"y = expand(s): [4611686018427387904,2]", "too large"},
  };
  const std::string inputs = R"(a: f32[2,3]; c: f32[4]; h: f16[2,3]; i: i64[4]; p: bool[2,3]; s: f32[]; v: f32[5]; w: f32[2]; k: i64[2,1];
                                q: f32[1,4,5,4]; r: f32[1,3,5,4]; f: f32[1,5,2];)";
  for (const auto& [statement, why] : refusals) {
    auto graph = parse(inputs + statement + "; return y");
    ASSERT_FALSE(graph.ok()) << statement;
    EXPECT_NE(graph.error().text().find(why), std::string::npos) << statement << "\n" << graph.error().text();
  }
}

TEST(Infer, shapes_follow_the_rules_of_each_operator) {
  const std::pair<const char*, const char*> accepted[] = {
      {"y = add(a, w)", "f32[2,2,3]"},
      {"y = add(s, s)", "f32[]"},
      {"y = add(z, a1)", "f32[0,3]"},
      {"y = less(a, a)", "bool[2,3]"},
      {"y = pow(a, i1)", "f32[2,3]"},
      {"y = transpose(w, perm=[2,0,1])", "f32[1,2,1]"},
      {"y = slice(a, starts=[1,2], steps=[-1,-2]): [2,2]", "f32[2,2]"},
      {"y = slice(a, starts=[2,0], steps=[1,1]): [0,3]", "f32[0,3]"},
      {"y = expand(s): [2,0]", "f32[2,0]"},
      {"y = concat(a, z, axis=0)", "f32[2,3]"},
      {"y = gather(a, k, axis=1)", "f32[2,5,1]"},
      {"y = gather_nd(a, k)", "f32[5,3]"},
      {"y = reduce_max(w, axes=[0,2])", "f32[1]"},
      {"y = reduce_max(w, axes=[0,2], keepdims=1)", "f32[1,1,1]"},
      {"y = reduce_sum(s, axes=[])", "f32[]"},
      {"y = matmul(a, a, trans_b=1)", "f32[2,2]"},
      {"y = matmul(m, b)", "f32[7,5,2,4]"},
      {"y = matmul(z, a, trans_b=1)", "f32[0,2]"},
      {"y = attention(q, g, g, scale=1.0)", "f32[1,4,5,8]"},
  };
  const std::string inputs = R"(a: f32[2,3]; a1: f32[1,3]; w: f32[2,1,1]; s: f32[]; z: f32[0,3]; i1: i32[]; k: i64[5,1];
                                m: f32[5,2,3]; b: f32[7,1,3,4]; q: f32[1,4,5,8]; g: f32[1,2,9,8];)";
  for (const auto& [statement, type] : accepted) {
    auto graph = parse(inputs + statement + "; return y");
    ASSERT_TRUE(graph.ok()) << statement << "\n" << graph.error().text();
    const Value& y = graph->value(graph->outputs[0]);
    EXPECT_EQ(std::string(name(y.dtype)) + text(y.shape), type) << statement;
  }
}

}  // namespace
}  // namespace rtx::ir

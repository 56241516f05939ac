#include "ir/text.h"

#include <gtest/gtest.h>

#include "ir/verify.h"

namespace rtx::ir {
namespace {

void expect_round_trip(const Graph& graph) {
  const std::string text = to_text(graph);
  auto back = parse(text);
  ASSERT_TRUE(back.ok()) << text << back.error().text();
  EXPECT_TRUE(same_structure(graph, *back)) << text << to_text(*back);
  EXPECT_EQ(to_text(*back), text);
  auto typed = parse(to_text(graph, {.types_on_every_value = true}));
  ASSERT_TRUE(typed.ok()) << typed.error().text();
  EXPECT_TRUE(same_structure(graph, *typed));
}

TEST(Text, a_structure_parses_without_the_values_of_large_constants) {
  const auto graph = parse_or_die("i: i64[3]; w: const f32[2,2] {1, 2, 3, 4}; y = gather(w, i, axis=0); return y");
  const auto text = to_text(graph, {.inline_constants_up_to = 1});
  EXPECT_FALSE(parse(text).ok());
  const auto structure = parse_structure(text);
  ASSERT_TRUE(structure.ok()) << structure.error().text();
  EXPECT_EQ(structure->inputs.size(), 1u);
  EXPECT_EQ(structure->extents(structure->nodes[0].inputs[0]), (std::vector<int64_t>{2, 2}));
}

TEST(Text, graphs_with_all_kinds_of_values_survive_the_round_trip) {
  expect_round_trip(parse_or_die(R"(
    graph "a model";
    x: f32[7,5] strides [1,7] offset 3;
    g: f32[5] weight;
    w: const f32[2,2] {1, -0.5, inf, -inf};
    b: const bool[3] {true, false, 1};
    big: const u64[1] {18446744073709551615};
    zero: const f16[0,3] {};
    scalar: const bf16[] {-0};
    s = softmax(x, axis=1);
    c = cast(s): f16;
    r = reshape(c): [35];
    l = slice(r, starts=[34], steps=[-2]): [4];
    (y, m, v) = layer_norm(x, g, axis=1, epsilon=1e-12);
    e = expand(l): [3,4];
    return y, m as "model output", v, e, l, w, b, x
  )"));
}

TEST(Text, attention_with_absent_inputs_and_states_survives) {
  expect_round_trip(parse_or_die(R"(
    q: f32[2,4,1,8];
    past: f32[2,2,7,8];
    k: f32[2,2,1,8];
    n: i64[2];
    present = concat(past, k, axis=2);
    a = attention(q, present, present, _, n, scale=0.125, causal=1, causal_offset=7, window_left=3);
    state cache: past -> present axis=2 max=1024;
    specialized shape: i64[2] {3, 4};
    return a, present
  )"));
}

TEST(Text, names_that_are_no_plain_words_are_quoted) {
  Graph graph;
  const ValueId x = graph.add_input("onnx::Add_3", DType::f32, {2});
  const ValueId y = graph.add_input("a \"quoted\" \\ name\n", DType::f32, {2});
  const ValueId z = graph.add_node(Op::add, {x, y}, {}, "state");
  graph.outputs = {z, z};
  graph.output_names = {"return", "b//c"};
  expect_round_trip(graph);
  EXPECT_NE(to_text(graph).find(R"(return "state" as "return", "state" as "b//c")"), std::string::npos) << to_text(graph);
}

TEST(Text, symbols_keep_their_bounds) {
  const Graph graph = parse_or_die("symbol batch min=1 max=64 multiple=8; x: f32[batch,(batch * 2)]; y = relu(x); return y");
  expect_round_trip(graph);
  ASSERT_EQ(graph.unbound_symbols().size(), 1u);
  EXPECT_EQ(graph.unbound_symbols()[0].maximum, 64);
  EXPECT_EQ(extent(graph.value(graph.outputs[0]).shape[1].bind({{"batch", 8}})), 16);
}

TEST(Text, defaults_are_filled_in_and_left_out) {
  const Graph graph = parse_or_die("x: f32[2]; y = gelu(x, tanh=0); z = silu(y, alpha=2); return z");
  EXPECT_EQ(to_text(graph), "x: f32[2];\ny = gelu(x);\nz = silu(y, alpha=2.0);\nreturn z;\n");
  EXPECT_TRUE(same_structure(graph, parse_or_die("x: f32[2]; y = gelu(x); z = silu(y, alpha=2.0); return z")));
  EXPECT_FALSE(same_structure(graph, parse_or_die("x: f32[2]; y = gelu(x, tanh=1); z = silu(y, alpha=2.0); return z")));
}

TEST(Text, a_literal_operand_is_a_scalar_of_its_neighbours_type) {
  const Graph graph = parse_or_die("x: f16[2]; c: bool[2]; y = mul(x, 0.125); z = where(c, y, -inf); return z");
  EXPECT_EQ(graph.value(graph.node(0).inputs[1]).dtype, DType::f16);
  EXPECT_EQ(graph.value(graph.node(0).inputs[1]).constant->get_double(0), 0.125);
  EXPECT_EQ(graph.value(graph.node(1).inputs[2]).dtype, DType::f16);
}

TEST(Text, anonymous_text_is_equal_for_graphs_that_differ_in_names_and_constant_order) {
  Graph a = parse_or_die("x: f32[2]; p: const f32[2] {1, 2}; q: const f32[2] {3, 4}; y = add(x, p); z = mul(y, q); return z");
  Graph b = parse_or_die("in: f32[2]; r: const f32[2] {3, 4}; s: const f32[2] {1, 2}; t = add(in, s); u = mul(t, r); return u as out");
  const TextOptions key{.inline_constants_up_to = 0, .anonymous = true};
  EXPECT_EQ(to_text(a, key), to_text(b, key));
  EXPECT_TRUE(same_structure(a, b, false));
  EXPECT_FALSE(same_structure(a, b));
  b.value(1).constant->set_double(0, 5);
  EXPECT_NE(to_text(a, key), to_text(b, key));
  EXPECT_EQ(to_text(a, {.inline_constants_up_to = 0, .anonymous = true, .hash_constants = false}),
            to_text(b, {.inline_constants_up_to = 0, .anonymous = true, .hash_constants = false}));
}

TEST(Text, a_large_constant_needs_its_values_beside_the_text) {
  Graph graph;
  HostTensor values(DType::f32, {5, 5});
  values.set_double(24, 7);
  graph.outputs = {graph.add_constant("w", values)};
  const std::string text = to_text(graph);
  EXPECT_NE(text.find("w: const f32[5,5] #"), std::string::npos) << text;
  EXPECT_FALSE(parse(text).ok());
  auto back = parse(text, {{"w", values}});
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_TRUE(same_structure(graph, *back));
  HostTensor other = values;
  other.set_double(0, 1);
  EXPECT_FALSE(parse(text, {{"w", other}}).ok());
  EXPECT_FALSE(parse(text, {{"w", values.reshaped({25})}}).ok());
}

struct Refusal {
  const char* text;
  const char* why;
};

TEST(Text, malformed_text_is_refused_with_the_reason) {
  const Refusal refusals[] = {
      {"x: f32[2]", "no return"},
      {"x: f32[2]; y = relux(x); return y", "no operator relux"},
      {"x: f32[2]; return y", "not defined"},
      {"x: f32[2]; x: f32[2]; return x", "defined twice"},
      {"x: f33[2]; return x", "not an element type"},
      {"x: f32[2; return x", "expected ']'"},
      {"x: f32[-2]; return x", "negative dimension"},
      {"x: f32[4611686018427387904,4]; return x", "too large"},
      {"w: const f32[2] {1}; return w", "2 elements, found 1"},
      {"w: const i8[1] {300}; return w", "not a value of i8"},
      {"w: const f32[1000000000000] {}; return w", "elements, found 0"},
      {"x: f32[2]; c = cast(x); return c", "needs a type"},
      {"x: f32[2]; c = relu(x, axis=1); return c", "no attribute axis"},
      {"x: f32[2]; c: f16[2] = relu(x); return c", "not what its type says"},
      {"x: f32[2]; c = softmax(x, axis=0, axis=0); return c", "given twice"},
      {"x: f32[2]; c = softmax(x, axis=99999999999999999999); return c", "64-bit"},
      {"x: f32[2]; (a, b) = relu(x); return a", "no output 1"},
      {"x: f32[2]; return x; y = relu(x)", "last statement"},
      {"x: f32[2]; return \"x", "does not end"},
      {"x: f32[2]; return x @", "has no meaning"},
      {"x: f32[2]; state s: x -> x depth=2; return x", "axis and max"},
  };
  for (const auto& [text, why] : refusals) {
    auto graph = parse(text);
    ASSERT_FALSE(graph.ok()) << text;
    EXPECT_NE(graph.error().text().find(why), std::string::npos) << text << "\n" << graph.error().text();
    EXPECT_EQ(graph.error().kind, ErrorKind::user);
  }
  const std::string deep = "x: f32[" + std::string(100000, '(');
  EXPECT_FALSE(parse(deep).ok());
}

TEST(Text, a_near_miss_of_an_operator_is_named) {
  auto graph = parse("x: f32[2]; y = sofmax(x, axis=0); return y");
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().fix, "did you mean softmax?");
}

}  // namespace
}  // namespace rtx::ir

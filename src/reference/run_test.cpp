#include "reference/test_help.h"

namespace rtx::reference {
namespace {

TEST(Run, inputs_that_do_not_fit_are_refused) {
  const ir::Graph graph = ir::parse_or_die("x: f32[2]; y = relu(x); return y");
  EXPECT_FALSE(run(graph, {}).ok());
  EXPECT_FALSE(run(graph, {ir::HostTensor(ir::DType::f16, {2})}).ok());
  auto wrong = run(graph, {ir::HostTensor(ir::DType::f32, {3})});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().text(), "error: input x does not fit\n  found f32[3], expected f32[2]");
  EXPECT_FALSE(run(ir::parse_or_die("x: f32[n]; return x"), {ir::HostTensor(ir::DType::f32, {3})}).ok());
}

TEST(Run, outputs_may_repeat_and_be_inputs_or_constants) {
  auto out = run_text("x: f32[2]; c: const f32[1] {5}; y = add(x, c); z = mul(y, x); return y, y, x, c, z", {{1, 2}});
  ASSERT_TRUE(out.ok());
  ASSERT_EQ(out->size(), 5u);
  expect_near(numbers_of((*out)[1]), {6, 7});
  expect_near(numbers_of((*out)[2]), {1, 2});
  expect_near(numbers_of((*out)[3]), {5});
  expect_near(numbers_of((*out)[4]), {6, 14});
}

TEST(Run, all_values_are_given_by_their_ids) {
  const ir::Graph graph = ir::parse_or_die("x: f32[1]; c: const f32[1] {5}; y = add(x, c); z = neg(y); return z");
  auto all = run_all(graph, {host(ir::DType::f32, {1}, {2})});
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), graph.values.size());
  EXPECT_EQ((*all)[static_cast<size_t>(graph.node(0).outputs[0])].reals[0], 7);
  EXPECT_EQ((*all)[1].reals[0], 5);
}

TEST(Run, an_error_inside_names_the_node) {
  ir::Graph graph = ir::parse_or_die("d: f32[2]; i: i64[1]; y = gather(d, i); return y");
  graph.node(0).name = "embed/Gather";
  auto out = run(graph, {ir::HostTensor(ir::DType::f32, {2}), ir::HostTensor::from_ints({9})});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().where[0], "node embed/Gather: gather f32[1]");
}

TEST(Run, a_single_node_folds_and_rounds_once) {
  const ir::Graph graph = ir::parse_or_die("a: f16[2]; b: f16[2]; y = div(a, b); i: i64[2]; j: i64[2]; z = add(i, j); return y, z");
  const auto a = host(ir::DType::f16, {2}, {1, 2});
  const auto b = host(ir::DType::f16, {2}, {3, 3});
  auto quotient = evaluate(graph, graph.node(0), {&a, &b});
  ASSERT_TRUE(quotient.ok());
  EXPECT_EQ((*quotient)[0].get_double(0), 0.333251953125);
  const auto big = ir::HostTensor::from_ints({INT64_MAX, 9007199254740993});
  const auto one = ir::HostTensor::from_ints({1, 0});
  auto sum = evaluate(graph, graph.node(1), {&big, &one});
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ((*sum)[0].get_int(0), INT64_MIN);
  EXPECT_EQ((*sum)[0].get_int(1), 9007199254740993);
}

TEST(Run, results_do_not_depend_on_the_number_of_threads) {
  const std::string text = R"(x: f32[3,17,24]; w: f32[24,31]; p = matmul(x, w); s = softmax(p, axis=2); q = reshape(s): [3,1,17,31];
                              a = attention(q, q, q, scale=0.3); y = layer_norm(a, axis=3); return y)";
  const std::vector<Numbers> inputs{counting(3 * 17 * 24, -1, 0.01), counting(24 * 31, 1, -0.003)};
  EXPECT_EQ(first(text, inputs, {.threads = 1}), first(text, inputs, {.threads = 2}));
  EXPECT_EQ(first(text, inputs, {.threads = 1}), first(text, inputs, {.threads = 7}));
}

}  // namespace
}  // namespace rtx::reference

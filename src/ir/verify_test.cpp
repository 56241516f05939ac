#include "ir/verify.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace rtx::ir {
namespace {

Graph small() { return parse_or_die("x: f32[2,3]; w: const f32[3] {1, 2, 3}; y = add(x, w); z = relu(y); return z"); }

void expect_broken(const Graph& graph, const std::string& why) {
  auto status = verify(graph);
  ASSERT_FALSE(status.ok()) << "expected: " << why;
  EXPECT_NE(status.error().text().find(why), std::string::npos) << status.error().text();
}

TEST(Verify, a_sound_graph_passes) { EXPECT_TRUE(verify(small()).ok()); }

TEST(Verify, every_broken_reference_is_found) {
  Graph graph = small();
  graph.inputs.push_back(graph.inputs[0]);
  expect_broken(graph, "input twice");
  graph = small();
  graph.outputs.push_back(99);
  expect_broken(graph, "does not exist");
  graph = small();
  graph.node(1).inputs[0] = 77;
  expect_broken(graph, "value 77");
  graph = small();
  graph.value(2).producer = 9;
  expect_broken(graph, "node 9");
  graph = small();
  graph.inputs.clear();
  expect_broken(graph, "no source");
  graph = small();
  graph.inputs.push_back(1);
  expect_broken(graph, "has a constant");
}

TEST(Verify, order_and_single_assignment_are_checked) {
  Graph graph = small();
  std::swap(graph.nodes[0], graph.nodes[1]);
  graph.value(2).producer = 1;
  graph.value(3).producer = 0;
  expect_broken(graph, "before it is made");
  graph = small();
  graph.node(1).outputs = graph.node(0).outputs;
  expect_broken(graph, "producer");
  graph = small();
  graph.node(0).outputs.clear();
  expect_broken(graph, "no result");
}

TEST(Verify, names_are_unique_and_present) {
  Graph graph = small();
  graph.value(2).name = "x";
  expect_broken(graph, "two values are called x");
  graph = small();
  graph.value(2).name.clear();
  expect_broken(graph, "no name");
  graph = small();
  graph.output_names = {"a", "b"};
  expect_broken(graph, "output names");
}

TEST(Verify, recorded_types_must_be_the_inferred_ones) {
  Graph graph = small();
  graph.value(2).dtype = DType::f16;
  expect_broken(graph, "recorded as f16[2,3]");
  graph = small();
  graph.value(3).shape = {Dim(6)};
  expect_broken(graph, "recorded as f32[6]");
  graph = small();
  graph.value(1).constant = HostTensor(DType::f32, {4});
  expect_broken(graph, "another type");
}

TEST(Verify, layouts_stay_inside_their_buffer_and_outputs_do_not_overlap) {
  Graph graph = small();
  graph.value(0).layout.strides = {1, 2};
  EXPECT_TRUE(verify(graph).ok());
  graph.value(0).layout = {{0, 1}, 0};  // broadcast input
  EXPECT_TRUE(verify(graph).ok());
  graph.value(0).layout = {{-3, 1}, 0};
  expect_broken(graph, "before its buffer");
  graph.value(0).layout.offset = 3;
  EXPECT_TRUE(verify(graph).ok());
  graph.value(0).layout = {{1}, 0};
  expect_broken(graph, "1 strides");
  graph.value(0).layout = {{INT64_MAX, 1}, INT64_MAX};
  expect_broken(graph, "2^63");
  graph = small();
  graph.value(3).layout.strides = {128, 1};
  EXPECT_TRUE(verify(graph).ok());
  graph.value(3).layout.strides = {2, 1};
  expect_broken(graph, "overlapping");
  graph.value(3).layout.strides = {0, 1};
  expect_broken(graph, "overlapping");
  graph = small();
  graph.value(2).layout.strides = {3, 1};
  expect_broken(graph, "neither input nor output");
}

Graph cache() {
  return parse_or_die(R"(past: f32[1,2,3]; k: f32[1,1,3]; now = concat(past, k, axis=1); y = relu(now);
                         state s: past -> now axis=1 max=8; return y, now)");
}

TEST(Verify, states_keep_type_shape_and_capacity) {
  EXPECT_TRUE(verify(cache()).ok());
  Graph graph = cache();
  graph.states[0].maximum = 2;
  expect_broken(graph, "exceeds the maximum");
  graph = cache();
  graph.states[0].axis = -1;
  expect_broken(graph, "shape changes");
  graph = cache();
  graph.states[0].axis = 5;
  expect_broken(graph, "outside its rank");
  graph = cache();
  graph.states[0].input = graph.states[0].output;
  expect_broken(graph, "not a graph input");
  graph = cache();
  graph.outputs.pop_back();
  expect_broken(graph, "not a graph output");
  graph = cache();
  graph.states.push_back(graph.states[0]);
  expect_broken(graph, "share a value");
}

TEST(Verify, the_old_content_of_a_state_is_not_read_after_the_new_is_written) {
  const Graph graph = parse_or_die(R"(past: f32[4]; x: f32[4]; now = add(past, x); late = mul(now, past);
                                      state s: past -> now; return late, now)");
  expect_broken(graph, "read after the new one");
}

TEST(Verify, specialised_inputs_are_no_inputs) {
  Graph graph = small();
  graph.specialized.push_back({"x", HostTensor::from_ints({1})});
  expect_broken(graph, "specialised input x");
}

}  // namespace
}  // namespace rtx::ir

#include <gtest/gtest.h>

#include <algorithm>

#include "fuse/region.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace rtx::fuse {
namespace {

using ir::Op;
using ir::OpClass;

Pattern pattern_of(std::string name, OpClass anchor) {
  Pattern pattern;
  pattern.name = std::move(name);
  pattern.anchor = [anchor](const ir::Graph& graph, ir::NodeId node) {
    return ir::info(graph.node(node).op).op_class == anchor;
  };
  pattern.accepts = [](const ir::Graph&) { return success(); };
  return pattern;
}

std::vector<Pattern> patterns() {
  Pattern matmul = pattern_of("matmul", OpClass::contraction);
  Pattern norm = pattern_of("norm", OpClass::normalization);
  norm.grows_up = true;
  norm.max_outputs = 2;
  Pattern pointwise = pattern_of("pointwise", OpClass::pointwise);
  pointwise.grows_up = true;
  Pattern movement = pattern_of("movement", OpClass::movement);
  return {matmul, norm, pointwise, movement};
}

// "matmul: y add | norm: ..." in the order of running; a region shows the values that its nodes make.
std::string show(const ir::Graph& graph, const Partition& partition) {
  std::string out;
  for (const Region& region : partition.regions) {
    out += (out.empty() ? "" : " | ") + region.pattern + ":";
    for (ir::NodeId node : region.nodes) out += " " + graph.value(graph.node(node).outputs[0]).name;
  }
  for (ir::NodeId node : partition.aliases)
    out += " | alias " + graph.value(graph.node(node).outputs[0]).name;
  return out;
}

std::string regions(std::string_view text, const std::vector<Pattern>& list = patterns(),
                    const PartitionOptions& options = {}) {
  const ir::Graph graph = ir::parse_or_die(text);
  auto found = partition(graph, list, options);
  if (!found.ok()) return found.error().text();
  for (const Region& region : found->regions) {
    if (auto status = ir::verify(region.body); !status.ok()) return status.error().text();
    if (region.body.inputs.size() != region.inputs.size() ||
        region.body.outputs.size() != region.outputs.size())
      return "the body does not fit";
  }
  return show(graph, *found);
}

TEST(Partition, a_matmul_takes_its_bias_and_activation) {
  EXPECT_EQ(
      regions("x: f32[4,8]; w: f32[8,6]; b: f32[6]; m = matmul(x, w); a = add(m, b); y = gelu(a); return y"),
      "matmul: m a y");
}
TEST(Partition, a_residual_add_goes_to_the_matmul_and_the_norm_starts_anew) {
  EXPECT_EQ(regions("x: f32[4,8]; w: f32[8,8]; m = matmul(x, w); r = add(m, x); y = layer_norm(r, axis=1, "
                    "epsilon=0.1); return y"),
            "matmul: m r | norm: y");
}
TEST(Partition, a_norm_takes_its_residual_sum_and_stores_it_for_a_second_reader) {
  EXPECT_EQ(regions("x: f32[4,8]; z: f32[4,8]; w: f32[8,8]; r = add(x, z); n = layer_norm(r, axis=1, "
                    "epsilon=0.1); m = matmul(n, w); "
                    "y = add(m, r); return y"),
            "norm: r n | matmul: m y");
}
TEST(Partition, a_value_with_a_second_reader_elsewhere_ends_the_region) {
  EXPECT_EQ(regions("x: f32[4,8]; w: f32[8,8]; m = matmul(x, w); a = gelu(m); b = matmul(m, w); return a, b"),
            "matmul: m | pointwise: a | matmul: b");
}
TEST(Partition, a_value_that_is_a_result_ends_the_region) {
  EXPECT_EQ(regions("x: f32[4,8]; w: f32[8,8]; m = matmul(x, w); a = gelu(m); return a, m"),
            "matmul: m | pointwise: a");
}
TEST(Partition, two_readers_that_meet_again_are_taken_together) {
  EXPECT_EQ(regions("x: f32[4,8]; w: f32[8,8]; m = matmul(x, w); s = sigmoid(m); y = mul(m, s); return y"),
            "matmul: m s y");
}
TEST(Partition, two_readers_that_meet_behind_a_matmul_are_not) {
  EXPECT_EQ(regions("x: f32[8,8]; a = exp(x); m = matmul(a, x); y = sub(a, m); return y"),
            "pointwise: a | matmul: m y");
}
TEST(Partition, no_region_waits_for_itself_through_a_node_outside) {
  // a and y could be one region by their operators, but m stands between.
  auto list = patterns();
  list[2].max_outputs = 4;
  list[0].grows_down = false;
  EXPECT_EQ(regions("x: f32[8,8]; a = exp(x); m = matmul(a, x); y = sub(a, m); return y", list),
            "pointwise: a | matmul: m | pointwise: y");
}
TEST(Partition, no_two_regions_wait_for_each_other) {
  // {a1, a2} and {b1, b2} are convex each; together neither could run first.
  Pattern first = pattern_of("first", OpClass::pointwise), second = first;
  for (Pattern* pattern : {&first, &second}) {
    pattern->max_outputs = 4;
    pattern->grows_up = true;
  }
  first.anchor = [](const ir::Graph& graph, ir::NodeId node) { return graph.node(node).op == Op::exp; };
  second.name = "second";
  const std::string found = regions(
      "x: f32[8]; y: f32[8]; a1 = exp(x); b1 = neg(a1); b2 = abs(y); a2 = add(a1, b2); z = add(b1, b2); "
      "return a2, z, b1, b2, a1",
      {first, second});
  EXPECT_EQ(found.find("error"), std::string::npos) << found;
}
TEST(Partition, operands_of_an_epilogue_are_taken_when_only_it_reads_them) {
  EXPECT_EQ(
      regions(
          "x: f32[4,8]; w: f32[8,8]; g: f32[4,8]; m = matmul(x, w); s = silu(g); y = mul(m, s); return y"),
      "matmul: m s y");
  EXPECT_EQ(
      regions(
          "x: f32[4,8]; w: f32[8,8]; g: f32[4,8]; m = matmul(x, w); s = silu(g); y = mul(m, s); return y, s"),
      "pointwise: s | matmul: m y");
}
TEST(Partition, a_producer_stays_outside_when_the_pattern_does_not_grow_up) {
  EXPECT_EQ(regions("x: f32[4,8]; w: f32[8,8]; a = exp(x); y = matmul(a, w); return y"),
            "pointwise: a | matmul: y");
}
TEST(Partition, an_epilogue_is_left_to_its_matmul_by_patterns_that_come_first) {
  Pattern first = pattern_of("norm", OpClass::normalization);
  first.grows_up = true;
  Pattern matmul = pattern_of("matmul", OpClass::contraction);
  const std::string text =
      "x: f32[4,8]; w: f32[8,8]; b: f32[8]; m = matmul(x, w); a = add(m, b); r = transpose(a, perm=[1,0]); "
      "y = layer_norm(r, axis=1, epsilon=0.1); return y";
  EXPECT_EQ(regions(text, {first, matmul}), "matmul: m a | norm: r y");
}
TEST(Partition, the_family_has_the_last_word_and_its_reason_is_kept) {
  auto list = patterns();
  list[0].accepts = [](const ir::Graph& body) -> Status {
    for (const ir::Node& node : body.nodes)
      if (node.op == Op::exp) return user_error("an exp does not fit");
    return success();
  };
  const ir::Graph graph =
      ir::parse_or_die("x: f32[4,8]; w: f32[8,8]; m = matmul(x, w); a = neg(m); y = exp(a); return y");
  auto found = partition(graph, list);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(show(graph, *found), "matmul: m a | pointwise: y");
  ASSERT_EQ(found->refusals.size(), 1u);
  EXPECT_EQ(found->refusals[0].node, 2);
  EXPECT_EQ(found->refusals[0].reason, "an exp does not fit");
}
TEST(Partition, what_one_pattern_refuses_goes_to_the_next) {
  auto list = patterns();
  list[2].accepts = [](const ir::Graph&) -> Status { return user_error("no"); };
  Pattern last = pattern_of("generic", OpClass::pointwise);
  list.push_back(last);
  EXPECT_EQ(regions("x: f32[8]; y = neg(x); return y", list), "generic: y");
}
TEST(Partition, all_unclaimed_nodes_are_named_at_once) {
  auto list = patterns();
  list.erase(list.begin());
  const std::string found =
      regions("x: f32[8,8]; m = matmul(x, x); a = neg(m); n = matmul(a, x); return n", list);
  EXPECT_NE(found.find("no kernel family computes 2 nodes"), std::string::npos) << found;
  EXPECT_NE(found.find("m: matmul f32[8,8]"), std::string::npos) << found;
  EXPECT_NE(found.find("n: matmul f32[8,8]"), std::string::npos) << found;
}
TEST(Partition, costly_work_is_not_repeated_for_every_row_it_is_broadcast_to) {
  EXPECT_EQ(regions("x: f32[8]; z: f32[64,8]; e = exp(x); y = mul(z, e); return y"),
            "pointwise: e | pointwise: y");
  EXPECT_EQ(regions("x: f32[8]; z: f32[64,8]; e = neg(x); y = mul(z, e); return y"), "pointwise: e y");
}

TEST(Partition, a_reshape_between_regions_is_an_alias) {
  EXPECT_EQ(
      regions(
          "x: f32[4,8]; w: f32[8,8]; m = matmul(x, w); r = reshape(m): [8,4]; y = matmul(r, x); return y"),
      "matmul: m | matmul: y | alias r");
}
TEST(Partition, a_reshape_inside_a_region_belongs_to_it) {
  EXPECT_EQ(regions("x: f32[4,8]; w: f32[8,8]; b: f32[4]; m = matmul(x, w); r = reshape(m): [8,4]; y = "
                    "add(r, b); return y"),
            "matmul: m r y");
}
TEST(Partition, a_reshape_of_an_input_that_is_a_result_is_copied) {
  EXPECT_EQ(regions("x: f32[4,8]; r = reshape(x): [32]; return r"), "movement: r");
}
TEST(Partition, a_reshape_of_a_constant_that_is_a_result_is_copied) {
  EXPECT_EQ(regions("c: const f32[2,1] {1, 2}; r = reshape(c): [2]; return r"), "movement: r");
}
TEST(Partition, a_reshape_of_a_strided_input_is_copied) {
  EXPECT_EQ(
      regions("x: f32[4,8] strides [1,4]; w: f32[32,8]; r = reshape(x): [1,32]; y = matmul(r, w); return y"),
      "movement: r | matmul: y");
}
TEST(Partition, a_reshape_of_a_result_that_is_a_result_too_is_copied) {
  EXPECT_EQ(regions("x: f32[4,8]; w: f32[8,8]; m = matmul(x, w); r = reshape(m): [32]; return m, r"),
            "matmul: m | movement: r");
}
TEST(Partition, two_results_are_never_one_buffer) {
  EXPECT_EQ(regions("x: f32[4,8]; w: f32[8,8]; m = matmul(x, w); r = reshape(m): [32]; s = reshape(m): "
                    "[8,4]; return r, s"),
            "matmul: m | movement: s | alias r");
}
TEST(Partition, a_result_that_is_an_input_needs_no_region) {
  EXPECT_EQ(regions("x: f32[4,8]; return x"), "");
}

TEST(Partition, without_fusion_every_node_is_a_region_and_reshapes_are_aliases) {
  PartitionOptions options;
  options.fuse = false;
  EXPECT_EQ(regions("x: f32[4,8]; w: f32[8,6]; b: f32[6]; m = matmul(x, w); a = add(m, b); r = reshape(a): "
                    "[24]; y = gelu(r); return y",
                    patterns(), options),
            "matmul: m | pointwise: a | pointwise: y | alias r");
}
TEST(Partition, regions_of_a_deep_graph_stay_in_order_and_in_time) {
  std::string text = "x: f32[4,8]; w: f32[8,8]; v0 = neg(x); ";
  for (int i = 0; i < 400; ++i) {
    const std::string n = std::to_string(i), m = std::to_string(i + 1);
    text += "n" + n + " = layer_norm(v" + n + ", axis=1, epsilon=0.1); m" + n + " = matmul(n" + n +
            ", w); s" + n + " = sigmoid(m" + n + "); g" + n + " = mul(m" + n + ", s" + n + "); v" + m +
            " = add(v" + n + ", g" + n + "); ";
  }
  const ir::Graph graph = ir::parse_or_die(text + "return v400");
  auto found = partition(graph, patterns());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->regions.size(), 800u);
  std::vector<char> made(graph.values.size(), 0);
  for (const Region& region : found->regions) {
    for (ir::ValueId input : region.inputs)
      EXPECT_TRUE(made[static_cast<size_t>(input)] || graph.value(input).producer == ir::kNoNode);
    for (ir::ValueId output : region.outputs) made[static_cast<size_t>(output)] = 1;
  }
}
TEST(Partition, a_states_reader_runs_before_its_writer) {
  ir::Graph graph =
      ir::parse_or_die("past: f32[4,8]; x: f32[4,8]; new = exp(x); a = neg(past); return new, a");
  graph.states.push_back({"cache", graph.inputs[0], graph.outputs[0], -1, 0});
  auto list = patterns();
  auto found = partition(graph, list);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(show(graph, *found), "pointwise: a | pointwise: new");
}

TEST(Partition, a_cast_to_an_integer_reads_its_operand_as_stored) {
  EXPECT_EQ(regions("x: f32[4,4]; w: f32[4,4]; y = matmul(x, w); z = cast(y): i64; return z"), "matmul: y | pointwise: z");
  EXPECT_EQ(regions("x: f32[4]; y = add(x, x); z = cast(y): i32; return z"), "pointwise: y | pointwise: z");
  EXPECT_EQ(regions("x: f32[4]; y = relu(x); z = cast(y): i32; return z"), "pointwise: y z");
}

TEST(Partition, a_cast_that_widens_does_not_undo_the_rounding_of_one_that_narrows) {
  EXPECT_EQ(regions("x: f32[4,4]; w: f32[4,4]; y = matmul(x, w); h = cast(y): f16; z = cast(h): f32; return z"), "matmul: y h | pointwise: z");
  EXPECT_EQ(regions("x: f16[4]; y = cast(x): f32; z = exp(y); h = cast(z): f16; return h"), "pointwise: y z h");
}

}  // namespace
}  // namespace rtx::fuse

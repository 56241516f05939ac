// What import makes of small models: the graph as text.
#include "import/onnx_testing.h"

namespace rtx::import {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Import, keeps_names_and_types_of_inputs_and_outputs) {
  TestModel model;
  model.input("x", {"2", "3"}).output("y");
  model.node("Relu", {"x"}, {"y"});
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  ASSERT_EQ(graph->nodes.size(), 1U);
  EXPECT_EQ(graph->nodes[0].op, ir::Op::relu);
  EXPECT_EQ(graph->value(graph->inputs[0]).name, "x");
  EXPECT_EQ(graph->output_name(0), "y");
  EXPECT_EQ(graph->extents(graph->outputs[0]), (std::vector<int64_t>{2, 3}));
}

TEST(Import, sorts_nodes_that_stand_out_of_order) {
  TestModel model;
  model.input("x", {"2"}).output("z");
  model.node("Exp", {"y"}, {"z"});
  model.node("Neg", {"x"}, {"y"});
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  EXPECT_EQ(graph->nodes[0].op, ir::Op::neg);
  EXPECT_EQ(graph->nodes[1].op, ir::Op::exp);
}

TEST(Import, folds_shape_arithmetic_away) {
  TestModel model;
  model.input("x", {"batch", "12", "4"}).output("y");
  model.ints("zero", {}, {0});
  model.ints("rest", {1}, {-1});
  model.ints("axis0", {1}, {0});
  model.node("Shape", {"x"}, {"shape"});
  model.node("Gather", {"shape", "zero"}, {"batch"});
  model.node("Unsqueeze", {"batch", "axis0"}, {"batch1"});
  TestModel::set(model.node("Concat", {"batch1", "rest"}, {"to"}), "axis", int64_t{0});
  model.node("Reshape", {"x", "to"}, {"y"});
  Options options;
  options.dims["batch"] = 5;
  auto graph = model.import(options);
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  ASSERT_EQ(graph->nodes.size(), 1U);
  EXPECT_EQ(graph->nodes[0].op, ir::Op::reshape);
  EXPECT_EQ(graph->extents(graph->outputs[0]), (std::vector<int64_t>{5, 48}));
}

TEST(Import, binds_a_symbol_everywhere_from_the_shape_of_one_input) {
  TestModel model;
  model.input("a", {"n", "3"}).input("b", {"n", "3"}).output("y");
  model.node("Add", {"a", "b"}, {"y"});
  Options options;
  options.shapes["a"] = {7, 3};
  auto graph = model.import(options);
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  EXPECT_EQ(graph->extents(graph->inputs[1]), (std::vector<int64_t>{7, 3}));
}

TEST(Import, lets_an_initialiser_be_the_default_of_an_input) {
  TestModel model;
  model.input("x", {"2"}).input("w", {"2"}).output("y");
  model.floats("w", {2}, {1, 2});
  model.node("Mul", {"x", "w"}, {"y"});
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  EXPECT_EQ(graph->inputs.size(), 1U);
  EXPECT_TRUE(graph->is_constant(graph->nodes[0].inputs[1]));
}

TEST(Import, keeps_an_output_that_is_an_input_a_constant_or_another_one) {
  TestModel model;
  model.input("x", {"2"}).output("x").output("w").output("y").output("z");
  model.floats("w", {1}, {4});
  model.node("Identity", {"x"}, {"y"});
  model.node("Identity", {"x"}, {"z"});
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  ASSERT_EQ(graph->outputs.size(), 4U);
  EXPECT_TRUE(graph->is_input(graph->outputs[0]));
  EXPECT_TRUE(graph->is_constant(graph->outputs[1]));
  EXPECT_EQ(graph->outputs[2], graph->outputs[3]);
  EXPECT_EQ(graph->output_name(2), "y");
}

TEST(Import, accepts_dimensions_of_zero) {
  TestModel model;
  model.input("past", {"1", "0", "4"}).input("x", {"1", "3", "4"}).output("y");
  TestModel::set(model.node("Concat", {"past", "x"}, {"y"}), "axis", int64_t{1});
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  EXPECT_EQ(graph->extents(graph->outputs[0]), (std::vector<int64_t>{1, 3, 4}));
}

TEST(Import, reads_the_default_domain_under_both_of_its_names) {
  TestModel model;
  model.proto.mutable_opset_import(0)->set_domain("ai.onnx");
  model.input("x", {"2"}).output("y");
  model.node("Relu", {"x"}, {"y"}).set_domain("ai.onnx");
  EXPECT_TRUE(model.import().ok());
}

TEST(Import, flattens_the_softmax_of_old_operator_sets) {
  TestModel old(11);
  old.input("x", {"2", "3", "4"}).output("y");
  old.node("Softmax", {"x"}, {"y"});
  auto graph = old.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  ASSERT_EQ(graph->nodes.size(), 3U);
  EXPECT_EQ(graph->extents(graph->nodes[1].outputs[0]), (std::vector<int64_t>{2, 12}));
  TestModel newer(13);
  newer.input("x", {"2", "3", "4"}).output("y");
  newer.node("Softmax", {"x"}, {"y"});
  EXPECT_EQ(newer.import()->nodes.size(), 1U);
}

TEST(Import, aligns_the_second_operand_of_old_operator_sets_at_axis) {
  TestModel model(6);
  model.input("a", {"2", "3", "4"}).input("b", {"3"}).output("y");
  auto& node = model.node("Add", {"a", "b"}, {"y"});
  TestModel::set(node, "broadcast", int64_t{1});
  TestModel::set(node, "axis", int64_t{1});
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  EXPECT_EQ(graph->extents(graph->nodes[0].outputs[0]), (std::vector<int64_t>{3, 1}));
}

TEST(Import, makes_slices_canonical) {
  TestModel model;
  model.input("x", {"10"}).output("y");
  model.ints("start", {1}, {-1});
  model.ints("end", {1}, {INT64_MIN});
  model.ints("axis", {1}, {0});
  model.ints("step", {1}, {-3});
  model.node("Slice", {"x", "start", "end", "axis", "step"}, {"y"});
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  EXPECT_EQ(graph->nodes[0].attributes.integers("starts"), (std::vector<int64_t>{9}));
  EXPECT_EQ(graph->nodes[0].attributes.integers("steps"), (std::vector<int64_t>{-3}));
  EXPECT_EQ(graph->extents(graph->outputs[0]), (std::vector<int64_t>{4}));
}

TEST(Import, splits_into_uneven_parts_from_version_18_on) {
  TestModel model(18);
  model.input("x", {"7"}).output("a").output("b").output("c");
  TestModel::set(model.node("Split", {"x"}, {"a", "b", "c"}), "num_outputs", int64_t{3});
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  EXPECT_EQ(graph->extents(graph->outputs[0]), (std::vector<int64_t>{3}));
  EXPECT_EQ(graph->extents(graph->outputs[2]), (std::vector<int64_t>{1}));
}

TEST(Import, turns_gemm_into_matmul_and_leaves_c_unread_where_beta_is_zero) {
  TestModel model;
  model.input("a", {"2", "3"}).input("b", {"4", "3"}).input("c", {"4"}).output("y");
  auto& node = model.node("Gemm", {"a", "b", "c"}, {"y"});
  TestModel::set(node, "transB", int64_t{1});
  auto* beta = node.add_attribute();
  beta->set_name("beta");
  beta->set_f(0);
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  ASSERT_EQ(graph->nodes.size(), 1U);
  EXPECT_EQ(graph->nodes[0].op, ir::Op::matmul);
  EXPECT_EQ(graph->nodes[0].attributes.integer("trans_b"), 1);
  EXPECT_EQ(graph->inputs.size(), 3U);
}

TEST(Import, writes_model_local_functions_out_with_their_attributes) {
  TestModel model(17);
  model.input("x", {"2", "3"}).output("y");
  auto* function = model.proto.add_functions();
  function->set_domain("local");
  function->set_name("SoftmaxTwice");
  function->add_input("v");
  function->add_output("w");
  function->add_attribute("ax");
  for (int i = 0; i < 2; ++i) {
    auto* inner = function->add_node();
    inner->set_op_type("Softmax");
    inner->add_input(i == 0 ? "v" : "t");
    inner->add_output(i == 0 ? "t" : "w");
    auto* axis = inner->add_attribute();
    axis->set_name("axis");
    axis->set_type(onnx::AttributeProto::INT);
    axis->set_ref_attr_name("ax");
  }
  auto& call = model.node("SoftmaxTwice", {"x"}, {"y"});
  call.set_domain("local");
  call.set_name("call");
  TestModel::set(call, "ax", int64_t{0});
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  ASSERT_EQ(graph->nodes.size(), 2U);
  EXPECT_EQ(graph->nodes[1].attributes.integer("axis"), 0);
  EXPECT_TRUE(contains(graph->nodes[0].name, "call/"));
}

TEST(Import, takes_the_branch_that_a_constant_condition_picks) {
  TestModel model;
  model.input("x", {"2"}).output("y");
  auto& tensor = model.ints("yes", {}, {});
  tensor.set_data_type(onnx::TensorProto::BOOL);
  tensor.add_int32_data(1);
  auto& node = model.node("If", {"yes"}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto* attribute = node.add_attribute();
    attribute->set_name(branch);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    auto* inner = attribute->mutable_g()->add_node();
    inner->set_op_type(std::string(branch) == "then_branch" ? "Exp" : "Log");
    inner->add_input("x");
    inner->add_output("r");
    attribute->mutable_g()->add_output()->set_name("r");
  }
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  ASSERT_EQ(graph->nodes.size(), 1U);
  EXPECT_EQ(graph->nodes[0].op, ir::Op::exp);
}

TEST(Import, reads_external_data_without_leaving_the_folder) {
  TestModel model;
  model.input("x", {"2"}).output("y");
  auto& tensor = model.floats("w", {2}, {});
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const char* value) {
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", "weights.bin");
  add("offset", "4");
  add("length", "8");
  const float values[] = {9, 1, 2};
  model.write("weights.bin", std::string(reinterpret_cast<const char*>(values), sizeof values));
  model.node("Mul", {"x", "w"}, {"y"});
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  const auto& weight = *graph->value(graph->nodes[0].inputs[1]).constant;
  EXPECT_EQ(weight.get_double(0), 1);
  EXPECT_EQ(weight.get_double(1), 2);
}

TEST(Import, names_the_inputs_whose_values_decide_shapes) {
  TestModel model;
  model.input("x", {"6"})
      .input("rows", {}, onnx::TensorProto::INT64)
      .input("other", {"3"})
      .output("y")
      .output("z");
  model.ints("axis0", {1}, {0});
  model.ints("rest", {1}, {-1});
  model.node("Unsqueeze", {"rows", "axis0"}, {"rows1"});
  TestModel::set(model.node("Concat", {"rows1", "rest"}, {"to"}), "axis", int64_t{0});
  model.node("Reshape", {"x", "to"}, {"y"});
  model.node("Shape", {"other"}, {"s"});
  model.node("ConstantOfShape", {"s"}, {"z"});
  model.save();
  auto info = inspect(model.path());
  ASSERT_TRUE(info.ok()) << info.error().text();
  EXPECT_EQ(info->shape_deciding_inputs, (std::vector<std::string>{"rows"}));
  EXPECT_EQ(info->node_count, 5);
  EXPECT_EQ(info->op_histogram.at("Reshape"), 1);

  Options options;
  options.bound_values["rows"] = ir::HostTensor::from_ints({3}).reshaped({});
  auto graph = model.import(options);
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  EXPECT_EQ(graph->extents(graph->outputs[0]), (std::vector<int64_t>{3, 2}));
  ASSERT_EQ(graph->specialized.size(), 1U);
  EXPECT_EQ(graph->specialized[0].name, "rows");
  EXPECT_EQ(graph->inputs.size(), 2U);
}

// numpy.random.seed(0); numpy.random.uniform(0, 1, 4) = 0.5488 0.7152 0.6028 0.5449
TEST(Import, draws_the_mask_of_a_seeded_dropout_as_the_standard_does) {
  TestModel model;
  model.input("x", {"4"}).output("y").output("kept");
  model.floats("ratio", {}, {0.6F});
  auto& training = model.ints("training", {}, {});
  training.set_data_type(onnx::TensorProto::BOOL);
  training.add_int32_data(1);
  auto& node = model.node("Dropout", {"x", "ratio", "training"}, {"y", "kept"});
  auto unseeded = model.import();
  ASSERT_FALSE(unseeded.ok());
  EXPECT_TRUE(contains(unseeded.error().text(), "without a seed it drops at random"));
  TestModel::set(node, "seed", int64_t{0});
  auto graph = model.import();
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  const auto& kept = *graph->value(graph->outputs[1]).constant;
  const bool expected[] = {false, true, true, false};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(kept.get_int(i), expected[i]) << i;
}

TEST(Import, leaves_large_constants_as_nodes_until_a_shape_needs_them) {
  TestModel model;
  model.input("x", {"1"}).output("y");
  model.ints("big", {1}, {4096});
  model.node("ConstantOfShape", {"big"}, {"zeros"});
  model.node("Add", {"x", "zeros"}, {"y"});
  Options options;
  options.fold_limit_bytes = 1024;
  auto graph = model.import(options);
  ASSERT_TRUE(graph.ok()) << graph.error().text();
  EXPECT_EQ(graph->nodes[0].op, ir::Op::expand);
  EXPECT_EQ(model.import()->nodes.size(), 1U);
}

}  // namespace
}  // namespace rtx::import

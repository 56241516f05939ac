// Models and options that are wrong, or not covered: the sentence each gets.
#include <unistd.h>

#include "import/onnx_testing.h"

namespace rtx::import {
namespace {

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TestModel& identity(TestModel& model) {
  model.input("x", {"2"}).output("y");
  model.node("Relu", {"x"}, {"y"});
  return model;
}

TEST(Refuse, an_unbound_symbol_by_its_name_with_the_options_that_bind_it) {
  TestModel model;
  model.input("ids", {"batch", "seq"}).output("y");
  model.node("Relu", {"ids"}, {"y"});
  Options options;
  options.dims["batch"] = 2;
  const std::string text = model.text(options);
  EXPECT_SAYS(text, "dimension 'seq' of input 'ids' has no value");
  EXPECT_SAYS(text, "--dim seq=N or --shape ids=1x128");
}

TEST(Refuse, all_unbound_dimensions_at_once_with_the_options_that_bind_them) {
  TestModel model;
  model.input("ids", {"batch", "seq"}).input("mask", {"batch", "keys"}).input("x", {"?", "4"}).output("y");
  model.node("Relu", {"ids"}, {"y"});
  const std::string text = model.text();
  EXPECT_SAYS(text, "dimension 'batch' of input 'ids' has no value");
  EXPECT_SAYS(text, "dimension 'seq' of input 'ids' has no value");
  EXPECT_SAYS(text, "dimension 'keys' of input 'mask' has no value");
  EXPECT_SAYS(text, "dimension 0 of input 'x' is dynamic and has no name");
  EXPECT_SAYS(text, "4 dimensions have no value");
  EXPECT_SAYS(text, "pass --dim batch=N --dim seq=N --dim keys=N --shape x=1x4");
}

TEST(Refuse, an_unnamed_dynamic_dimension_and_asks_for_the_shape) {
  TestModel model;
  model.input("x", {"?", "4"}).output("y");
  model.node("Relu", {"x"}, {"y"});
  const std::string text = model.text();
  EXPECT_SAYS(text, "dimension 0 of input 'x' is dynamic and has no name");
  EXPECT_SAYS(text, "--shape x=1x4");
}

TEST(Refuse, a_shape_that_contradicts_the_model_or_another_option) {
  TestModel model;
  model.input("x", {"n", "4"}).output("y");
  model.node("Relu", {"x"}, {"y"});
  Options options;
  options.shapes["x"] = {2, 5};
  EXPECT_SAYS(model.text(options), "--shape x=2x5 gives dimension 1 as 5, the model fixes it at 4");
  options.shapes["x"] = {2};
  EXPECT_SAYS(model.text(options), "has 1 dimensions, the input has 2");
  options.shapes["x"] = {2, 4};
  options.dims["n"] = 3;
  EXPECT_SAYS(model.text(options), "dimension 'n' is 3 by --dim n=3 and 2 by --shape x=2x4");
}

TEST(Refuse, options_that_name_nothing_in_the_model) {
  TestModel model;
  identity(model);
  Options options;
  options.shapes["z"] = {2};
  EXPECT_SAYS(model.text(options), "'z', which is no input of the model");
  options.shapes.clear();
  options.dims["n"] = 2;
  EXPECT_SAYS(model.text(options), "'n', which is no dimension");
}

TEST(Refuse, a_value_for_an_input_of_another_type_or_shape) {
  TestModel model;
  identity(model);
  Options options;
  options.bound_values["x"] = ir::HostTensor::from_ints({1, 2});
  EXPECT_SAYS(model.text(options), "is i64, the model wants f32");
  options.bound_values["x"] = ir::HostTensor(ir::DType::f32, {3});
  EXPECT_SAYS(model.text(options), "fixes it at 2");
}

TEST(Refuse, every_unsupported_node_at_once_grouped_with_counts) {
  TestModel model;
  model.input("x", {"batch", "4"}).output("y");
  model.node("Sin", {"x"}, {"a"}).set_name("first");
  model.node("Sin", {"a"}, {"b"}).set_name("second");
  auto& custom = model.node("Magic", {"b"}, {"c"});
  custom.set_domain("com.example");
  custom.set_name("third");
  model.node("Relu", {"c"}, {"y"});
  auto graph = model.import();
  ASSERT_FALSE(graph.ok());
  EXPECT_TRUE(is_unsupported(graph.error()));
  EXPECT_EQ(graph.error().exit_code(), 2);
  const std::string text = graph.error().text();
  EXPECT_SAYS(text, "Sin * 2: the operator is not covered (first, second)");
  EXPECT_SAYS(text, "com.example::Magic * 1");
  EXPECT_SAYS(text, "3 nodes are not supported");
}

TEST(Refuse, unsupported_nodes_that_no_output_needs_are_ignored) {
  TestModel model;
  identity(model);
  model.node("Sin", {"x"}, {"unused"});
  EXPECT_TRUE(model.import().ok());
}

TEST(Refuse, element_types_that_are_not_covered_by_their_name) {
  TestModel model;
  model.input("x", {"2"}, 17).output("y");
  model.node("Relu", {"x"}, {"y"});
  EXPECT_SAYS(model.text(), "its element type is f8e4m3fn");
  TestModel weights;
  weights.input("x", {"2"}).output("y");
  auto& tensor = weights.floats("w", {2}, {});
  tensor.set_data_type(22);
  weights.node("Mul", {"x", "w"}, {"y"});
  auto graph = weights.import();
  ASSERT_FALSE(graph.ok());
  EXPECT_TRUE(is_unsupported(graph.error()));
  EXPECT_SAYS(graph.error().text(), "tensor 'w' has element type i4");
}

TEST(Refuse, an_if_whose_condition_is_computed_at_run_time) {
  TestModel model;
  model.input("x", {}, onnx::TensorProto::BOOL).output("y");
  model.node("Not", {"x"}, {"no"});
  model.node("If", {"no"}, {"y"});
  EXPECT_SAYS(model.text(), "its condition is computed at run time");
}

TEST(Refuse, cycles_and_nodes_that_read_themselves) {
  TestModel model;
  model.input("x", {"2"}).output("b");
  model.node("Add", {"x", "b"}, {"a"}).set_name("round");
  model.node("Relu", {"a"}, {"b"});
  EXPECT_SAYS(model.text(), "node round: Add stands in a cycle");
  TestModel self;
  self.input("x", {"2"}).output("a");
  self.node("Add", {"x", "a"}, {"a"});
  EXPECT_SAYS(self.text(), "stands in a cycle");
}

TEST(Refuse, names_that_nothing_or_two_things_produce) {
  TestModel missing;
  missing.input("x", {"2"}).output("y");
  missing.node("Add", {"x", "ghost"}, {"y"});
  EXPECT_SAYS(missing.text(), "reads 'ghost', which nothing produces");
  TestModel twice;
  identity(twice);
  twice.node("Exp", {"x"}, {"y"});
  EXPECT_SAYS(twice.text(), "two nodes produce 'y'");
  TestModel shadow;
  identity(shadow).output("w");
  shadow.floats("w", {1}, {0});
  shadow.node("Exp", {"x"}, {"w"});
  EXPECT_SAYS(shadow.text(), "produces 'w', which is already an input or an initialiser");
  TestModel inputs;
  identity(inputs);
  inputs.input("x", {"2"});
  EXPECT_SAYS(inputs.text(), "two graph inputs are called 'x'");
  TestModel output;
  identity(output);
  output.output("ghost");
  EXPECT_SAYS(output.text(), "output 'ghost' is produced by nothing");
  TestModel outputs;
  identity(outputs);
  outputs.output("y");
  EXPECT_SAYS(outputs.text(), "two graph outputs are called 'y'");
}

TEST(Refuse, files_that_are_absent_empty_garbage_or_cut_off) {
  TestModel model;
  identity(model);
  EXPECT_SAYS(import_onnx(model.folder() + "/absent.onnx").error().text(), "cannot read");
  EXPECT_SAYS(import_onnx(model.folder()).error().text(), "it is a folder");
  model.write("model.onnx", "");
  EXPECT_SAYS(import_onnx(model.path()).error().text(), "the file is empty");
  model.write("model.onnx", std::string(100, '\xff'));
  EXPECT_SAYS(import_onnx(model.path()).error().text(), "it is not an ONNX model");
}

TEST(Refuse, every_truncation_of_a_model_without_a_crash) {
  TestModel model;
  model.floats("w", {3}, {1, 2, 3});
  identity(model);
  const std::string bytes = model.proto.SerializeAsString();
  for (size_t length = 0; length < bytes.size(); ++length) {
    model.write("model.onnx", bytes.substr(0, length));
    auto graph = import_onnx(model.path());
    EXPECT_TRUE(graph.ok() || graph.error().kind == ErrorKind::user);
    (void)inspect(model.path());
  }
}

TEST(Refuse, every_single_flipped_byte_without_a_crash) {
  TestModel model;
  model.input("x", {"2", "n"}).output("y");
  model.ints("to", {2}, {-1, 2});
  model.floats("w", {2}, {1, 2});
  model.node("Reshape", {"x", "to"}, {"r"});
  TestModel::set(model.node("Transpose", {"r"}, {"t"}), "perm", std::vector<int64_t>{1, 0});
  TestModel::set(model.node("Softmax", {"t"}, {"s"}), "axis", int64_t{0});
  model.node("Gather", {"s", "index"}, {"y"});
  model.ints("index", {1}, {1});
  const std::string bytes = model.proto.SerializeAsString();
  Options options;
  options.dims["n"] = 3;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit : {0, 3, 7}) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      model.write("model.onnx", flipped);
      auto graph = import_onnx(model.path(), options);
      EXPECT_TRUE(graph.ok() || graph.error().kind == ErrorKind::user);
    }
  }
}

TEST(Refuse, tensors_whose_data_does_not_match_their_shape) {
  TestModel model;
  model.input("x", {"2"}).output("y");
  auto& tensor = model.floats("w", {2}, {});
  tensor.set_raw_data("abc");
  model.node("Mul", {"x", "w"}, {"y"});
  EXPECT_SAYS(model.text(), "tensor 'w' [2] needs 8 bytes, the file gives 3");
  tensor.clear_raw_data();
  tensor.add_float_data(1);
  EXPECT_SAYS(model.text(), "needs 2 elements, the file gives 1");
  tensor.set_dims(0, -2);
  EXPECT_SAYS(model.text(), "negative dimension");
  tensor.set_dims(0, INT64_MAX);
  tensor.add_dims(INT64_MAX);
  EXPECT_SAYS(model.text(), "impossible size");
}

TEST(Refuse, inputs_of_negative_or_impossible_size) {
  TestModel negative;
  negative.input("x", {"-3"}).output("y");
  negative.node("Relu", {"x"}, {"y"});
  EXPECT_SAYS(negative.text(), "is negative, -3");
  TestModel huge;
  huge.input("x", {"9000000000000000000", "9000000000000000000"}).output("y");
  huge.node("Relu", {"x"}, {"y"});
  EXPECT_SAYS(huge.text(), "impossible size");
}

TEST(Refuse, results_too_large_to_exist) {
  TestModel model;
  model.input("x", {"1"}).output("y");
  model.ints("to", {3}, {int64_t{1} << 40, int64_t{1} << 40, 8});
  model.node("Expand", {"x", "to"}, {"y"});
  EXPECT_FALSE(model.import().ok());
}

struct External {
  explicit External(const std::string& location, const std::string& offset = "",
                    const std::string& length = "") {
    model.input("x", {"2"}).output("y");
    auto& tensor = model.floats("w", {2}, {});
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] :
         {std::pair{"location", location}, {"offset", offset}, {"length", length}}) {
      if (value.empty()) continue;
      auto* entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    model.node("Mul", {"x", "w"}, {"y"});
    model.write("weights.bin", std::string(8, '\0'));
  }
  TestModel model;
};

TEST(Refuse, external_data_outside_the_folder) {
  EXPECT_SAYS(External("/etc/passwd").model.text(), "the location is absolute");
  EXPECT_SAYS(External("../weights.bin").model.text(), "leaves the model's folder");
  EXPECT_SAYS(External("sub/../../weights.bin").model.text(), "leaves the model's folder");
  External link("link.bin");
  ASSERT_EQ(symlink("/etc/passwd", (link.model.folder() + "/link.bin").c_str()), 0);
  EXPECT_SAYS(link.model.text(), "a symbolic link leads out");
}

TEST(Refuse, external_data_that_is_absent_or_out_of_range) {
  EXPECT_SAYS(External("absent.bin").model.text(), "the file is missing beside the model");
  EXPECT_SAYS(External("weights.bin", "4").model.text(), "which has 8");
  EXPECT_SAYS(External("weights.bin", "9223372036854775807").model.text(), "which has 8");
  EXPECT_SAYS(External("weights.bin", "-1").model.text(), "which is not a size");
  EXPECT_SAYS(External("weights.bin", "0", "7").model.text(), "needs 8 bytes, the file gives 7");
}

TEST(Refuse, an_ill_formed_node_by_its_name_and_the_shapes_it_sees) {
  TestModel model;
  model.input("a", {"2", "3"}).input("b", {"4", "5"}).output("y");
  model.node("MatMul", {"a", "b"}, {"y"}).set_name("block/MatMul_1");
  const std::string text = model.text();
  EXPECT_SAYS(text, "node block/MatMul_1: MatMul (f32[2,3], f32[4,5])");
  EXPECT_SAYS(text, "inner dimensions differ");
}

TEST(Refuse, operands_of_the_wrong_rank) {
  TestModel attention(23);
  attention.input("q", {"1", "2", "3", "4"}).input("past", {"4"}).output("y");
  attention.node("Attention", {"q", "q", "q", "", "past", "past"}, {"y"});
  EXPECT_SAYS(attention.text(), "a past cache has shape [4], expected 4 dimensions");
  TestModel one_hot;
  one_hot.input("i", {"2"}, onnx::TensorProto::INT64).input("values", {}).output("y");
  one_hot.ints("depth", {}, {3});
  one_hot.node("OneHot", {"i", "depth", "values"}, {"y"});
  EXPECT_SAYS(one_hot.text(), "values has shape [], expected 1 dimensions");
  TestModel scalar;
  scalar.input("x", {}).output("y");
  scalar.node("LayerNormalization", {"x", "x"}, {"y"});
  EXPECT_SAYS(scalar.text(), "axis -1 is outside");
}

TEST(Refuse, a_shape_that_depends_on_an_input_without_a_value) {
  TestModel model;
  model.input("x", {"6"}).input("to", {"2"}, onnx::TensorProto::INT64).output("y");
  model.node("Reshape", {"x", "to"}, {"y"});
  EXPECT_SAYS(model.text(), "shape depends on the value of input 'to', which is not known at import");
}

TEST(Refuse, functions_that_call_themselves) {
  TestModel model;
  model.input("x", {"2"}).output("y");
  auto* function = model.proto.add_functions();
  function->set_domain("local");
  function->set_name("Loop");
  function->add_input("v");
  function->add_output("w");
  auto* inner = function->add_node();
  inner->set_op_type("Loop");
  inner->set_domain("local");
  inner->add_input("v");
  inner->add_output("w");
  model.node("Loop", {"x"}, {"y"}).set_domain("local");
  EXPECT_SAYS(model.text(), "functions call each other more than");
  EXPECT_FALSE(inspect(model.path()).ok());
}

}  // namespace
}  // namespace rtx::import

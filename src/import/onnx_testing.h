#pragma once
// Tiny ONNX models built in code, written to a folder of their own that goes away with the object.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "import/onnx.h"
#include "ir/text.h"
#include "onnx/onnx.pb.h"

namespace rtx::import {

class TestModel {
 public:
  explicit TestModel(int64_t opset = 17) {
    std::string pattern = testing::TempDir() + "rtx_import_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    proto.set_ir_version(8);
    auto* entry = proto.add_opset_import();
    entry->set_domain("");
    entry->set_version(opset);
  }
  ~TestModel() { std::filesystem::remove_all(folder_); }
  TestModel(const TestModel&) = delete;
  TestModel& operator=(const TestModel&) = delete;

  onnx::ModelProto proto;
  onnx::GraphProto& graph() { return *proto.mutable_graph(); }
  const std::string& folder() const { return folder_; }
  std::string path() const { return folder_ + "/model.onnx"; }

  // Dimensions as text: a number, a symbol, or "?" for an unnamed dynamic one.
  TestModel& input(const std::string& name, const std::vector<std::string>& dims,
                   int type = onnx::TensorProto::FLOAT) {
    auto* value = graph().add_input();
    value->set_name(name);
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const auto& text : dims) {
      auto* dim = tensor->mutable_shape()->add_dim();
      if (text == "?") continue;
      if (text.find_first_not_of("-0123456789") == std::string::npos)
        dim->set_dim_value(std::stoll(text));
      else
        dim->set_dim_param(text);
    }
    return *this;
  }
  TestModel& output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }
  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs) {
    auto* node = graph().add_node();
    node->set_op_type(op);
    for (const auto& name : inputs) node->add_input(name);
    for (const auto& name : outputs) node->add_output(name);
    return *node;
  }
  static void set(onnx::NodeProto& node, const std::string& name, int64_t value) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  }
  static void set(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
    auto* attribute = node.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    for (int64_t value : values) attribute->add_ints(value);
  }
  onnx::TensorProto& ints(const std::string& name, const std::vector<int64_t>& dims,
                          const std::vector<int64_t>& values) {
    auto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::INT64);
    for (int64_t dim : dims) tensor->add_dims(dim);
    for (int64_t value : values) tensor->add_int64_data(value);
    return *tensor;
  }
  onnx::TensorProto& floats(const std::string& name, const std::vector<int64_t>& dims,
                            const std::vector<float>& values) {
    auto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (int64_t dim : dims) tensor->add_dims(dim);
    for (float value : values) tensor->add_float_data(value);
    return *tensor;
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }
  void save() const { write("model.onnx", proto.SerializeAsString()); }
  Result<ir::Graph> import(const Options& options = {}) const {
    save();
    return import_onnx(path(), options);
  }
  // The graph's text, or the error's.
  std::string text(const Options& options = {}) const {
    auto graph = import(options);
    return graph.ok() ? ir::to_text(*graph) : graph.error().text();
  }

 private:
  std::string folder_;
};

}  // namespace rtx::import

#pragma once
// ONNX model file -> canonical ir::Graph (ir/op.h). Everything computable at import is folded; every shape is
// constant afterwards.
//
// Errors are the user's (exit 2). A model that is fine but outside what this version covers has an
// Error::what that starts with kUnsupported and lists every unsupported node at once; anything else is a
// mistake in the model or in the options.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace rtx::import {

constexpr std::string_view kUnsupported = "unsupported model";

struct Options {
  // Shapes of graph inputs: --shape NAME=1x128. Binds the symbols of that input everywhere.
  std::map<std::string, std::vector<int64_t>> shapes;
  // Values of symbolic dimensions: --dim NAME=N.
  std::map<std::string, int64_t> dims;
  // Values of graph inputs that decide shapes. They become constants, recorded in Graph::specialized.
  std::map<std::string, ir::HostTensor> bound_values;
  // Results larger than this stay nodes, unless a shape depends on them.
  int64_t fold_limit_bytes = int64_t{64} << 20;
};

Result<ir::Graph> import_onnx(const std::string& path, const Options& options = {});

// True for an Error of import_onnx that says "not covered", false for a mistake.
bool is_unsupported(const Error& error);

struct TensorInfo {
  std::string name;
  std::string dtype;   // "f32", "bool"; for a type outside ir::DType its ONNX name ("f8e4m3fn", "string")
  bool ranked = true;  // false: the model gives no shape at all
  std::vector<std::string> shape;  // "128", "batch", "?" for an unnamed dynamic dimension
  std::string text() const;        // "f32[1,batch,?]"
};

struct ModelInfo {
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;  // by domain; the default domain is "ai.onnx"
  std::string producer;
  std::vector<TensorInfo> inputs;  // without those that an initializer gives a value
  std::vector<TensorInfo> outputs;
  int64_t node_count = 0;                       // subgraphs and function bodies included
  std::map<std::string, int64_t> op_histogram;  // "MatMul", "com.microsoft::Attention"
  // Inputs whose *values* decide shapes or attributes: the caller binds them from data
  // (Options::bound_values).
  std::vector<std::string> shape_deciding_inputs;
};

Result<ModelInfo> inspect(const std::string& path);
Result<std::vector<std::string>> shape_deciding_inputs(const std::string& path);

}  // namespace rtx::import

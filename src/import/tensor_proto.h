#pragma once
// ONNX TensorProto files (test data: input_0.pb) <-> HostTensor.
#include <string>

#include "base/result.h"
#include "ir/tensor.h"

namespace rtx::import {

struct NamedTensor {
  std::string name;  // as stored; may be empty
  ir::HostTensor tensor;
};

// Data kept in external files beside it is not read: test data carries its own. A type outside ir::DType is
// an Error of kind user whose what starts with "unsupported tensor".
Result<NamedTensor> read_tensor_proto(const std::string& path);
Status write_tensor_proto(const std::string& path, const std::string& name, const ir::HostTensor& tensor);

}  // namespace rtx::import
